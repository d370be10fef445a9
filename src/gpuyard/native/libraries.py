"""Finds a library for the state that its sources have now, and compiles it where there is none."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from gpuyard.core.errors import MissingLibraryError
from gpuyard.core.private_folders import private_folders

PACKAGE = Path(__file__).resolve().parents[1]
INSTALLED = PACKAGE / "native" / "lib"
_SCRIPTS = (PACKAGE / "native" / "sources" / "build.py", PACKAGE.parents[1] / "native" / "build.py")
"""In an installed package, and in a copy of the repository."""


@dataclass(frozen=True)
class LibraryState:
    """One library: where it is, or why it cannot be used."""

    library: str
    path: Path | None
    problem: str
    """Empty if it loads."""
    without_it: str
    """What does not work without it."""


def find(name: str) -> Path:
    """Return a library, compiled if need be; raises MissingLibraryError where that is impossible."""
    there = (folder / name for folder in _folders())
    return next((path for path in there if path.is_file()), None) or _compile(name)


def folder() -> Path:
    """Return the folder in which all libraries are, compiled if need be: programs find them there by their names."""
    folders = {find(name).parent for name in build_script().LIBRARIES}
    return folders.pop() if len(folders) == 1 else build_all()[0].parent


def build_all() -> list[Path]:
    """Compile every library again, into the package if it can be written to."""
    return [_compile(name) for name in build_script().LIBRARIES]


def check_all() -> list[LibraryState]:
    """Say of every library where it is, and whether it loads."""
    return [_checked(name) for name in build_script().LIBRARIES]


def _checked(name: str) -> LibraryState:
    path, problem, lost = None, "", build_script().LIBRARIES[name].lost
    try:
        path = find(name)
        ctypes.CDLL(str(path))
    except (MissingLibraryError, OSError) as error:
        problem = str(error)
    return LibraryState(name, path, problem, lost)


def _compile(name: str) -> Path:
    script = build_script()
    library = script.LIBRARIES[name]
    why = "no folder of yours can keep it; XDG_CACHE_HOME may name one"
    for folder in _folders():
        try:
            return Path(script.build(library, folder / name))
        except script.BuildError as error:
            why = str(error)
            break
        except OSError:
            continue
    raise MissingLibraryError(library.lost, name, why)


def _folders() -> Iterator[Path]:
    """Where libraries of this state are or may be put, the best place first."""
    yield INSTALLED / _state()
    yield from private_folders(f"native-{_state()}", PACKAGE, os.environ)


@lru_cache(maxsize=1)
def _state() -> str:
    return str(build_script().state())


@lru_cache(maxsize=1)
def build_script() -> ModuleType:
    """Return the script that compiles; the build of the package runs it too, without the package."""
    script = next(path for path in _SCRIPTS if path.is_file())
    spec = importlib.util.spec_from_file_location("gpuyard_native_build", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
