"""Ctrl-C, kept waiting while it would leave something half-done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


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
