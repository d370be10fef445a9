"""Checkpoints of one job on disk: each appears complete or not at all, and one that is damaged is passed over."""

from __future__ import annotations

import json
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

KEPT = 2
"""The newest ones; the one before the last is there if the last is damaged."""
STATE = "state"
"""What a script saves: a file or a folder of this name."""
_MANIFEST = "manifest.json"
_BLOCK = 1 << 20


class Checkpoints:
    """The folder of a job's checkpoints."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def write(self, step: int, save: Callable[[Path], object]) -> Path:
        """Let `save` write the state after so many steps; OSError, and nothing is left, where there is no room."""
        self.folder.mkdir(parents=True, exist_ok=True)
        target = self.folder / f"step-{step:012d}"
        partial = self.folder / f".{target.name}-{os.getpid()}"
        for left in self.folder.glob(".step-*"):  # by processes that were killed while they wrote
            shutil.rmtree(left, ignore_errors=True)
        partial.mkdir()
        try:
            save(partial / STATE)
            manifest = {"step": step, "files": {name: _fingerprint(partial / name) for name in _files(partial)}}
            (partial / _MANIFEST).write_text(json.dumps(manifest))
            for name in (*manifest["files"], _MANIFEST):  # type: ignore[misc]
                _sync(partial / name)
            if target.exists():
                shutil.rmtree(target)
            partial.rename(target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        _sync(self.folder)
        for old in sorted(self._complete())[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)
        return target / STATE

    def newest(self) -> tuple[int, Path | None]:
        """The steps behind the newest sound checkpoint, and its state; 0 and None where there is none."""
        for folder in sorted(self._complete(), reverse=True):
            step = self._sound(folder)
            if step is not None:
                return step, folder / STATE
            print(f"gpuyard: {folder} is damaged; the checkpoint before it is used", file=sys.stderr)
        return 0, None

    def _complete(self) -> list[Path]:
        return list(self.folder.glob("step-*")) if self.folder.is_dir() else []

    def _sound(self, folder: Path) -> int | None:
        """The step of a checkpoint whose files are all as they were written."""
        try:
            manifest = json.loads((folder / _MANIFEST).read_text())
            files = manifest["files"]
            if all(_fingerprint(folder / name) == list(found) for name, found in files.items()):
                return int(manifest["step"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass
        return None


def _files(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder))


def _fingerprint(path: Path) -> list[int]:
    """Length and checksum."""
    length, checksum = 0, 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            length, checksum = length + len(block), zlib.crc32(block, checksum)
    return [length, checksum]


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
