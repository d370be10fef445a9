"""Where compiled code is kept: a folder that nobody else can write to, one for each state of the source.

Numba loads what it finds there by unpickling it, which runs whatever the file says; so a folder in which another user
could have put a file is never used.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding
import numba
import numpy as np
from numba.core import caching

from gpuyard.core.private_folders import make_private, private_folders

VARIABLE = "GPUYARD_KERNEL_CACHE"
"""Names a folder to be tried before all others; worker processes are told of a temporary one by it."""

KEPT_S = 30 * 24 * 3600.0
"""Compiled code of another state of the source is removed when it has not been used for so long."""

_MARK = re.compile(rb"^@(?:kernel|inner|compilable)\b", re.MULTILINE)
_IMPORT = re.compile(rb"^\s*(?:from|import)\s+gpuyard\.([\w.]+)", re.MULTILINE)
_STAMP = "used"
_LOCK = "compiling"
_caching: Any = caching


class KernelCache:
    """A folder of compiled code that this process uses; nobody tidies it away meanwhile."""

    def __init__(self, folder: Path, *, lasting: bool) -> None:
        self.folder, self.lasting = folder, lasting
        self._in_use = _hold(folder / _STAMP)

    def has(self, what: str) -> bool:
        """Whether everything was compiled that this needs."""
        return (self.folder / f"{what}.ready").exists()

    def note(self, what: str) -> None:
        """Write down that everything is compiled that this needs."""
        (self.folder / f"{what}.ready").touch()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until no other process compiles, and keep others waiting: they will find it done."""
        with (self.folder / _LOCK).open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class _PlaceInPackage(_caching.UserProvidedCacheLocator):  # type: ignore[misc]
    """Where numba keeps what it made of a function: by the function's place in this package.

    Numba itself goes by where the package is. Then installations that share a folder would each compile anew, where a
    note in it says that nothing is left to compile.
    """

    package = Path(__file__).resolve().parents[1]

    def get_source_stamp(self) -> object:
        """A package's files are in the name of the whole folder, whenever they were written."""
        return "" if self._place(self._py_file) is not None else super().get_source_stamp()

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """A folder for each folder of sources."""
        place = cls._place(py_file)
        return str(super().get_suitable_cache_subpath(py_file)) if place is None else ".".join(["package", *place])

    @classmethod
    def _place(cls, py_file: str) -> tuple[str, ...] | None:
        path = Path(py_file).resolve()
        return path.relative_to(cls.package).parent.parts if path.is_relative_to(cls.package) else None


class _CompiledKernel(_caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_PlaceInPackage,)


class CodeOnDisk(_caching.FunctionCache):  # type: ignore[misc]
    """What numba keeps of one function."""

    _impl_class = _CompiledKernel


def open_cache(package: Path, environment: Mapping[str, str]) -> KernelCache:
    """Find or make the folder for this state of the source, and tidy up beside it.

    Without a safe place it is a temporary folder of this process and its workers.
    """
    name = f"kernels-{fingerprint(package)}"
    for folder in private_folders(name, package, environment, VARIABLE):
        with suppress(OSError):
            cache = KernelCache(folder, lasting=True)
            tidy(folder.parent, folder)
            return cache
    folder = Path(tempfile.mkdtemp(prefix="gpuyard-"))
    atexit.register(_remove_own, folder, os.getpid())
    os.environ[VARIABLE] = str(folder)
    make_private(folder / name)
    return KernelCache(folder / name, lasting=False)


def fingerprint(package: Path) -> str:
    """Change whenever anything does that compiled code depends on: source, compiler, processor."""
    binding: Any = llvmlite.binding
    versions = (platform.python_version(), numba.__version__, llvmlite.__version__, np.__version__)
    processor = (binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten())
    known = hashlib.sha256("\n".join([*versions, *processor]).encode())
    for file, source in sorted(sources(package).items()):
        known.update(f"\n{file.relative_to(package)} {len(source)}\n".encode())
        known.update(source)
    return known.hexdigest()[:16]


def sources(package: Path) -> dict[Path, bytes]:
    """Files with kernels and all files these import, directly or not: whatever a kernel reads stands in one of them."""
    texts = {file: file.read_bytes() for file in package.rglob("*.py")}
    waiting = [file for file, text in texts.items() if _MARK.search(text)]
    found: dict[Path, bytes] = {}
    while waiting:
        file = waiting.pop()
        if file not in found:
            found[file] = texts[file]
            for name in _IMPORT.findall(texts[file]):
                module = package.joinpath(*name.decode().split("."))
                # Names taken from a folder may stand in any of its files.
                waiting += [module.with_suffix(".py")] if module.with_suffix(".py") in texts else module.glob("*.py")
    return found


def tidy(base: Path, mine: Path) -> None:
    """Remove compiled code that nobody has used for a month and nobody is using now."""
    for folder in base.glob("kernels-*"):
        with suppress(OSError):
            stamp = folder / _STAMP
            last = (stamp if stamp.exists() else folder).stat().st_mtime
            if folder != mine and time.time() - last > KEPT_S:
                _remove_unused(folder, stamp)


def _remove_unused(folder: Path, stamp: Path) -> None:
    with stamp.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises BlockingIOError while somebody uses it
        shutil.rmtree(folder, ignore_errors=True)


def _hold(stamp: Path) -> int:
    """Say that the folder is in use, from now on and as long as this process lives."""
    while True:
        file = os.open(stamp, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(file, fcntl.LOCK_SH)
        if stamp.exists():
            os.utime(stamp)
            return file
        # Somebody tidied the folder away while we waited.
        os.close(file)
        make_private(stamp.parent)


def _remove_own(folder: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
