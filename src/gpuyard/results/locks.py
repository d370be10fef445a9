"""Locks on folders: they need no file of their own, and end with the process that holds them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def only_one(folder: Path) -> Iterator[bool]:
    """Let one process at a time do something in a folder; says whether that could be arranged.

    It cannot where the file system knows no locks on folders, as over NFS.
    """
    while True:
        handle = _open(folder)
        try:
            locked = _lock(handle, fcntl.LOCK_EX)
            # Who waited may have the lock on a folder that was removed meanwhile, and others that on its successor.
            if not locked or os.path.samestat(os.fstat(handle), folder.stat()):
                yield locked
                return
        finally:
            os.close(handle)


def hold(folder: Path) -> int:
    """Show others that a live process is at work on this folder, until the handle is closed."""
    handle = _open(folder)
    _lock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return handle


def claim(folder: Path) -> int | None:
    """Take a folder for this process alone, until the handle is closed; None while another process has it."""
    handle = _open(folder)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError:
        pass  # the file system knows no locks on folders: nobody can be kept out
    return handle


def is_abandoned(folder: Path) -> bool:
    """Tell whether certainly no live process is at work on this folder."""
    handle = _open(folder)
    try:
        return _lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(handle)


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


def _lock(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind)
    except OSError:
        return False
    return True
