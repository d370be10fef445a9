"""Writes a folder so that it appears whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def write_folder(target: Path, contents: Mapping[str, bytes]) -> None:
    """Write files into a hidden sibling, sync them, and put it in the target's place; on failure leave no trace."""
    target.parent.mkdir(parents=True, exist_ok=True)
    hidden = f".{target.name}-{secrets.token_hex(4)}"
    fresh = target.with_name(f"{hidden}.partial")
    with interrupts_held_back():
        try:
            fresh.mkdir()
            for name, content in contents.items():
                _put(fresh / name, content)
            _sync_folder(fresh)
            _swap(fresh, target, target.with_name(f"{hidden}.old.partial"))
            _sync_folder(target.parent)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Deliver Ctrl-C only after the block, so that it can stop neither a rename nor the tidying after a failure."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread is ever interrupted
        yield
        return
    seen: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if seen:
            signal.raise_signal(signal.SIGINT)


def _swap(fresh: Path, target: Path, aside: Path) -> None:
    """Put the fresh folder in the target's place; the old one survives any failure before that."""
    try:
        if target.exists():
            target.rename(aside)
        fresh.rename(target)
    finally:
        if aside.exists() and not target.exists():
            aside.rename(target)
        shutil.rmtree(aside, ignore_errors=True)


def _put(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
