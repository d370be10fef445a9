"""Checkpoints of one job on disk: each appears complete or not at all, and one that is damaged is passed over.

Where every process of a job has a folder of its own, a step counts as saved when all of them have saved it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

KEPT = 2
"""The newest ones; the one before the last is there if the last is damaged."""
STATE = "state"
"""What a script saves: a file or a folder of this name."""
_MANIFEST = "manifest.json"
_BLOCK = 1 << 20


class Checkpoints:
    """The folder of a job's checkpoints, or of those of one of its processes, with the folders of the others."""

    def __init__(self, folder: Path | str, others: Iterable[Path] = ()) -> None:
        self.folder = Path(folder)
        self._folders = [self.folder, *others]

    def write(self, step: int, save: Callable[[Path], object]) -> Path:
        """Let `save` write the state after so many steps; OSError, and nothing is left, where there is no room."""
        self.folder.mkdir(parents=True, exist_ok=True)
        target = self.folder / _name(step)
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
        mine = _names(self.folder)
        self._drop(mine - _newest(mine) - _newest(self._everywhere()))
        return target / STATE

    def newest(self) -> tuple[int, Path | None]:
        """The steps behind the newest sound checkpoint, and its state; 0 and None where there is none."""
        for name in sorted(self._everywhere(), reverse=True):
            step = self._sound_everywhere(name)
            if step is not None:
                return step, self.folder / name / STATE
        return 0, None

    def _everywhere(self) -> set[str]:
        """The names of those that every process has."""
        return set.intersection(*map(_names, self._folders))

    def is_everywhere(self, step: int) -> bool:
        """Whether every process has saved after this step."""
        return _name(step) in self._everywhere()

    def drop_after(self, step: int) -> None:
        """Take away what was saved here after this step: the job goes on from it, and comes there another way."""
        self._drop({name for name in _names(self.folder) if name > _name(step)})

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def _sound_everywhere(self, name: str) -> int | None:
        """The step of a checkpoint that is sound in every folder: processes that look at it all find the same."""
        step = None
        for folder in self._folders:
            step = self._sound(folder / name)
            if step is None:
                print(f"gpuyard: {folder / name} is damaged; the checkpoint before it is used", file=sys.stderr)
                break
        return step

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


def _name(step: int) -> str:
    return f"step-{step:012d}"


def _names(folder: Path) -> set[str]:
    """The names of what is complete in a folder."""
    return {path.name for path in folder.glob("step-*")} if folder.is_dir() else set()


def _newest(names: Iterable[str]) -> set[str]:
    return set(sorted(names)[-KEPT:])


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
