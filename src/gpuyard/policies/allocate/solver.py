"""Keeps the solver's own words out of our output: HiGHS prints debug lines to stdout whatever it is told."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_libc = ctypes.CDLL(None)


@contextmanager
def silent_solver() -> Iterator[None]:
    """Send what C code prints to stdout to nowhere."""
    _libc.fflush(None)
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        _libc.fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
