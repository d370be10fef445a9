"""Requests to stop, Ctrl-C among them: kept waiting while they would leave something half-done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""How others than the user at the keyboard end a program: a scheduler, a shutdown, a terminal that is closed."""


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Deliver requests to stop only after the block, so that none stops a rename or the tidying after a failure."""
    if not _in_main_thread():
        yield
        return
    seen: list[int] = []
    try:
        with _handled((signal.SIGINT, *ENDING), lambda number, _: seen.append(number)):
            yield
    finally:
        for number in dict.fromkeys(seen):
            signal.raise_signal(number)


@contextmanager
def ending_interrupts() -> Iterator[list[int]]:
    """Let a request to end stop the block as Ctrl-C does, with time to tidy up; yields the requests that came.

    A request that is ignored, as under nohup, stays so.
    """
    came: list[int] = []
    if not _in_main_thread():
        yield came
        return

    def interrupt(number: int, _: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    with _handled(ENDING, interrupt):
        yield came


@contextmanager
def _handled(numbers: Iterable[signal.Signals], handler: Callable[[int, object], object]) -> Iterator[None]:
    """Handle these signals in the block, but for those that are ignored or not Python's to handle."""
    before = {number: signal.getsignal(number) for number in numbers}
    heard = {number: old for number, old in before.items() if old not in (signal.SIG_IGN, None)}
    for number in heard:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in heard.items():
            signal.signal(number, old)


def _in_main_thread() -> bool:
    """Only the main thread is ever interrupted."""
    return threading.current_thread() is threading.main_thread()
