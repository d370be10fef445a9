"""Requests to stop, Ctrl-C among them: kept waiting while they would leave something half-done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

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
        with ExitStack() as requests:  # each is delivered, also after one that raised
            for number in reversed(dict.fromkeys(seen)):
                requests.callback(signal.raise_signal, number)


@contextmanager
def interrupts_between_steps() -> Iterator[Callable[[], None]]:
    """Deliver a request to stop only where the block calls what this yields, and a second one at once.

    An exception that meets compiled code while it hands its results over crashes the process.
    """
    if not _in_main_thread():
        yield lambda: None
        return
    waiting: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDING)}
    handlers = {number: old for number, old in before.items() if callable(old)}

    def hear(number: int, frame: FrameType | None) -> None:
        if waiting:
            handlers[signal.Signals(number)](number, frame)
        else:
            waiting.append(number)

    def deliver() -> None:
        if waiting:
            number = signal.Signals(waiting.pop())
            handlers[number](number, None)

    try:
        with _handled(handlers, hear):
            yield deliver
    finally:
        deliver()


@contextmanager
def ending_interrupts() -> Iterator[list[int]]:
    """Let a request to end stop the block as Ctrl-C does, with time to tidy up; yields the requests that came.

    Only the first does: a batch system tells a whole group and then each process again, and the second would stop the
    tidying up. A request that is ignored, as under nohup, stays so.
    """
    came: list[int] = []
    if not _in_main_thread():
        yield came
        return

    def interrupt(number: int, _: object) -> None:
        came.append(number)
        if len(came) == 1:
            raise KeyboardInterrupt

    with _handled(ENDING, interrupt):
        yield came


@contextmanager
def _handled(numbers: Iterable[int], handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
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
