"""Where compiled code may be kept: loading it means trusting it, so only where nobody else can have put it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def private_folders(name: str, package: Path, environment: Mapping[str, str], variable: str = "") -> Iterator[Path]:
    """Make a folder of this name wherever that is possible and safe, the best place first.

    Tries the folder that the variable names, the package's own, and the user's cache.
    """
    for base, top in _places(package, environment, variable):
        folder = base.resolve() / name
        try:
            make_private(folder)
            if is_private(folder, top.resolve(), os.getuid()):
                yield folder
        except OSError:
            continue


def is_private(folder: Path, top: Path, user: int) -> bool:
    """Whether only this user can have written there.

    The folder belongs to the user and is closed to all others; what is above it, up to `top`, belongs to the user or to
    root, and nobody else can write there.
    """
    itself = folder.lstat()
    if not stat.S_ISDIR(itself.st_mode) or itself.st_uid != user or itself.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return False
    above = [parent.stat() for parent in folder.parents if parent.is_relative_to(top)]
    return bool(above) and all(found.st_uid in (0, user) and not found.st_mode & _OTHERS_WRITE for found in above)


def make_private(folder: Path) -> None:
    """Make a folder and all that are missing above it, closed to others whatever the umask says."""
    if not folder.exists():
        make_private(folder.parent)
        # Python's own folder also holds what every user of the package may read.
        folder.mkdir(0o755 if folder.name == "__pycache__" else 0o700, exist_ok=True)


def _places(package: Path, environment: Mapping[str, str], variable: str) -> Iterator[tuple[Path, Path]]:
    """Folders to try, each with the highest one above it that must be safe too."""
    if environment.get(variable):
        yield Path(environment[variable]), Path(environment[variable])
    yield package / "__pycache__", package
    if Path(environment.get("XDG_CACHE_HOME", "")).is_absolute():
        yield Path(environment["XDG_CACHE_HOME"]) / "gpuyard", Path(environment["XDG_CACHE_HOME"])
    elif environment.get("HOME"):
        yield Path(environment["HOME"]) / ".cache" / "gpuyard", Path(environment["HOME"])
