"""The memory that clients may take together, how it goes back to the machine, and the files that connections take."""

from __future__ import annotations

import ctypes
import resource
from functools import cache
from typing import Any

WORTH_TRIMMING = 32 << 20
"""Bytes that must have been given back before it pays to tidy up while more come."""
WORTH_WHEN_QUIET = 1 << 20
"""The same while none come. A byte that is counted may have been kept several times: as it came, and as it was read."""


def allow_files(wanted: int) -> None:
    """Let this process have so many files open, as far as that is its own decision: often it begins with 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if resource.RLIM_INFINITY != soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class Reserve:
    """Counts the bytes of bodies and answers that are kept for clients."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.taken = 0
        self._returned = self._returned_before = 0

    def take(self, size: int) -> bool:
        """Count bytes that are about to be kept; False if there would be too many."""
        if self.taken + size > self.total:
            return False
        self.taken += size
        return True

    def give(self, size: int) -> None:
        """Count bytes that are no longer kept."""
        self.taken -= size
        self.pass_through(size)

    def pass_through(self, size: int) -> None:
        """Note bytes that were here for a moment only."""
        self._returned += size

    def tidy(self) -> None:
        """Return to the machine what was given back: the allocator keeps buffers that lie between others."""
        quiet = self._returned == self._returned_before
        if self._returned >= (WORTH_WHEN_QUIET if quiet else WORTH_TRIMMING):
            self._returned = 0
            trim_heap()
        self._returned_before = self._returned


def trim_heap() -> None:
    """Return free memory to the machine, where the C library can."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Any:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
