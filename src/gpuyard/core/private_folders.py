"""Where compiled code may be kept: loading it means trusting it, so only where nobody else can have put it.

The user's own folder also keeps what processes of one user share, as locks on names.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def private_folders(name: str, package: Path, environment: Mapping[str, str], variable: str = "") -> Iterator[Path]:
    """Make a folder of this name wherever that is possible and safe, the best place first.

    Tries the folder that the variable names, the package's own, and the user's cache.
    """
    places = [(package / "__pycache__", package), *_user_cache(environment)]
    named = environment.get(variable)
    if named and not is_exchangeable(Path(named)):
        places.insert(0, (Path(named), Path(named)))
    return _made(name, places)


def user_folder(name: str, environment: Mapping[str, str]) -> Path | None:
    """Make a folder in the user's cache, one for all of this user's gpuyards; None where that is not possible."""
    return next(_made(name, _user_cache(environment)), None)


def _made(name: str, places: Iterable[tuple[Path, Path]]) -> Iterator[Path]:
    """Make the folder in each of these places that is safe, as is all above it up to the second path."""
    for base, top in places:
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


def is_exchangeable(folder: Path) -> bool:
    """Whether another user could put a folder of its own in the place of this one, or of one above it, at any time.

    Who may write to a folder may rename what is in it, unless the folder is sticky, as /tmp is.
    """
    try:
        modes = [parent.stat().st_mode for parent in folder.resolve().parents if parent.exists()]
    except (OSError, RuntimeError):
        return True  # what cannot be looked at, or a link to itself: nobody knows
    return any(mode & _OTHERS_WRITE and not mode & stat.S_ISVTX for mode in modes)


def make_private(folder: Path) -> None:
    """Make a folder and all that are missing above it, closed to others whatever the umask says."""
    if not folder.exists():
        make_private(folder.parent)
        # Python's own folder also holds what every user of the package may read.
        folder.mkdir(0o755 if folder.name == "__pycache__" else 0o700, exist_ok=True)


def _user_cache(environment: Mapping[str, str]) -> Iterator[tuple[Path, Path]]:
    """Where a user's cache is, with the highest folder above it that must be safe too."""
    if Path(environment.get("XDG_CACHE_HOME", "")).is_absolute():
        named = Path(environment["XDG_CACHE_HOME"])
        if not is_exchangeable(named):
            yield named / "gpuyard", named
    elif environment.get("HOME"):
        yield Path(environment["HOME"]) / ".cache" / "gpuyard", Path(environment["HOME"])
