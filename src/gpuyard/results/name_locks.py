"""Keeps names of run folders for live processes, without putting anything into the folders where the runs will be.

One file in the user's cache stands for all names: each is one byte of it, far apart by a hash of the path. The kernel
locks that byte until the reservation is given up or its process ends, however it ends. Other users, and machines that
do not share the cache, do not see these locks; between them the first to write has the name.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
from pathlib import Path

from gpuyard.core.private_folders import user_folder

_FLOCK = "hhqqi0q"
"""The kernel's struct flock: kind, whence, start, length, process."""


class NameLock:
    """The lock on one name; without a file it keeps nobody out."""

    def __init__(self, file: int | None, byte: int) -> None:
        self._file, self._byte = file, byte

    def release(self) -> None:
        """Let others have the name, also where a process that was forked meanwhile has the file open."""
        if self._file is not None:
            _set(self._file, self._byte, fcntl.F_UNLCK)
            os.close(self._file)
            self._file = None


def lock_name(target: Path) -> NameLock | None:
    """Keep a path from all others; None while somebody has it."""
    byte = int.from_bytes(hashlib.sha256(os.fsencode(os.path.realpath(target))).digest()[:8]) >> 1
    file = _open()
    if file is None:
        return NameLock(None, byte)
    try:
        _set(file, byte, fcntl.F_WRLCK)
    except OSError as error:
        os.close(file)
        return None if isinstance(error, BlockingIOError) else NameLock(None, byte)  # no locks on that file system
    return NameLock(file, byte)


def _open() -> int | None:
    """Open the file anew: a lock belongs to an opened file, and threads of one process exclude each other too."""
    folder = user_folder("names", os.environ)
    try:
        return None if folder is None else os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:  # no room for it
        return None


def _set(file: int, byte: int, kind: int) -> None:
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, byte, 1, 0))
