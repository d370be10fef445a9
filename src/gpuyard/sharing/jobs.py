"""For programs that know where their jobs begin and end; others need nothing of it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def job() -> Iterator[None]:
    """Be one job, whatever is synchronised inside; does nothing in a program that is not behind the gate.

    The job is on the GPU whose context is current in this thread.
    """
    begin, end = _marker("begin"), _marker("end")
    marked = begin is not None and begin() == 0
    try:
        yield
    finally:
        if marked and end is not None:
            end()


def _marker(which: str) -> ctypes._NamedFuncPointer | None:
    """Find a function of the library that was preloaded into this program, if one was."""
    return getattr(ctypes.CDLL(None), f"gpuyard_gate_{which}_program_job", None)
