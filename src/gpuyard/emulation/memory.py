"""Memory of one GPU as one process holds it, counted as CUDA's caching allocator counts it."""

from __future__ import annotations

from collections.abc import Callable

from gpuyard.core.errors import GpuyardError

ROUNDING = 512
"""Every block is a whole number of these bytes."""
SMALL_BLOCK, SMALL_SEGMENT = 1 << 20, 2 << 20
"""Blocks up to a mebibyte are cut from segments of two."""
LARGE_BLOCK, LARGE_SEGMENT = 10 << 20, 20 << 20
"""Blocks up to ten mebibytes are cut from segments of twenty; larger ones get their own, in steps of SMALL_SEGMENT."""


class MemoryFullError(GpuyardError):
    """The GPU, or this process's share of it, cannot hold one more block of this size."""

    def __init__(self, wanted: int) -> None:
        super().__init__(f"no room for {wanted} more bytes")
        self.wanted = wanted


class Memory:
    """What this process has allocated, and what it keeps reserved for later, with their peaks.

    Freed blocks stay reserved, as with CUDA; fragmentation is not modelled, so reserved memory is the high-water mark
    of what was allocated, in whole segments.
    """

    __slots__ = (
        "_release",
        "_reserve",
        "allocated",
        "allocations",
        "frees",
        "limit",
        "peak",
        "refusals",
        "reserved",
        "reserved_peak",
        "retries",
    )

    def __init__(self, reserve: Callable[[int], bool], release: Callable[[int], None]) -> None:
        self._reserve, self._release = reserve, release
        self.allocated = self.peak = self.reserved = self.reserved_peak = 0
        self.allocations = self.frees = 0
        self.retries = self.refusals = 0
        """How often there was no room at first, and no room in the end."""
        self.limit: int | None = None
        """The most that may be reserved, if the program limits itself."""

    def take(self, nbytes: int) -> int:
        """Allocate a block and return its rounded size; raises MemoryFullError. No bytes are no block."""
        if not nbytes:
            return 0
        size = (nbytes + ROUNDING - 1) // ROUNDING * ROUNDING
        allocated = self.allocated + size
        if allocated > self.reserved:
            self._grow(allocated, size)
        self.allocated = allocated
        self.allocations += 1
        self.peak = max(self.peak, allocated)
        return size

    def give_back(self, size: int) -> None:
        """Free a block of this rounded size; its segment stays reserved."""
        if size:
            self.allocated -= size
            self.frees += 1

    def trim(self) -> None:
        """Return reserved segments that hold nothing to the GPU."""
        needed = -(-self.allocated // SMALL_SEGMENT) * SMALL_SEGMENT
        if needed < self.reserved:
            self._release(self.reserved - needed)
            self.reserved = needed

    def reset_peak(self) -> None:
        """Measure the peaks from now on."""
        self.peak, self.reserved_peak = self.allocated, self.reserved

    def _grow(self, allocated: int, size: int) -> None:
        segment = LARGE_SEGMENT if SMALL_BLOCK < size < LARGE_BLOCK else SMALL_SEGMENT
        missing = allocated - self.reserved
        for step in (segment, SMALL_SEGMENT, ROUNDING):
            growth = -(-missing // step) * step
            if (self.limit is None or self.reserved + growth <= self.limit) and self._reserve(growth):
                self.reserved += growth
                self.reserved_peak = max(self.reserved_peak, self.reserved)
                return
        raise MemoryFullError(size)
