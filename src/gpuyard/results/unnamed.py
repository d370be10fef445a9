"""Files without a name: until they are given one, they are gone with their process, however it ends.

Some file systems know none, such as NFS; there `open_unnamed` returns None, and files have names from the start.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

_UNKNOWN = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOSYS, errno.EINVAL)
"""What a file system, or a kernel, says that knows no files without names."""

_OWN_FILES = Path("/proc/self/fd")


def nearest_folder(path: Path) -> Path:
    """The first thing above a path that is there; whatever is missing between them will be on the same disk."""
    return next((parent for parent in path.parents if os.path.lexists(parent)), path.parent)


def open_unnamed(beside: Path) -> int | None:
    """Open a new file for writing on the disk where a path is or will be; raises OSError where nobody may write."""
    try:
        return os.open(nearest_folder(beside), os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in _UNKNOWN:
            return None
        raise


def give_name(file: int, path: Path) -> None:
    """Let an unnamed file appear, with all that is in it."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Without a folder to begin at, the link would be followed by nobody, and named instead of the file.
        os.link(_OWN_FILES / str(file), path.name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)
