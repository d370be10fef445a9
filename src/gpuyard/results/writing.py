"""Files that are on the disk before their folder gets its name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from gpuyard.results.unnamed import give_name, open_unnamed


@contextmanager
def written(contents: Mapping[str, bytes], target: Path) -> Iterator[dict[str, BinaryIO]]:
    """Write files without names where a folder will be, and wait until the disk has them; none where that cannot be."""
    with ExitStack() as opened:
        files: dict[str, BinaryIO] = {}
        for name, content in contents.items():
            file = open_unnamed(target)
            if file is not None:
                files[name] = opened.enter_context(os.fdopen(file, "wb"))
                _write(files[name], content)
        yield files


def fill(folder: Path, contents: Mapping[str, bytes], files: Mapping[str, BinaryIO]) -> None:
    """Put what is written into a folder, and write the rest.

    That the disk has the names, too, is waited for when the folder has its own: a kill meanwhile would leave it hidden.
    """
    for name, content in contents.items():
        if name in files:
            give_name(files[name].fileno(), folder / name)
        else:
            with (folder / name).open("wb") as file:
                _write(file, content)


def _write(file: BinaryIO, content: bytes) -> None:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


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
    _sync(target)
    _sync(target.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
