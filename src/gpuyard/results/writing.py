"""Files that are on the disk before their folder gets its name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path


def write_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files and wait until the disk has them."""
    for name, content in contents.items():
        with (folder / name).open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    _sync(folder)


def put_in_place(fresh: Path, target: Path, aside: Path) -> None:
    """Give a complete folder its name; a run of that name goes aside first, and comes back if anything fails."""
    try:
        if target.exists():
            target.rename(aside)
        fresh.rename(target)
    finally:
        if aside.exists() and not target.exists():
            aside.rename(target)
        shutil.rmtree(aside, ignore_errors=True)
    _sync(target.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
