"""Which batch sizes are tried: steps of a quarter of an octave within what a task allows, and what fits into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, floor, log2

STEPS_PER_OCTAVE = 4

BatchSizes = tuple[int, ...]
"""A batch size for each of the tasks that share a GPU."""


@dataclass(frozen=True)
class BatchRange:
    """The batch sizes a task allows: its own, from half to twice of it if it does not say, and the memory they take."""

    own: int
    smallest: int
    largest: int
    fixed_gb: float
    """GPU memory beside what grows with the batch: weights, gradients, state of the optimiser."""
    sample_gb: float
    """GPU memory for each sample of the batch."""

    def __post_init__(self) -> None:
        if not 1 <= self.smallest <= self.own <= self.largest:
            raise ValueError(f"batch sizes must be 1 ≤ smallest ≤ own ≤ largest: {self}")
        if not (self.fixed_gb >= 0 and self.sample_gb >= 0):
            raise ValueError(f"memory must not be negative: {self}")

    @classmethod
    def around(cls, own: int, *, fixed_gb: float = 0.0, sample_gb: float = 0.0) -> BatchRange:
        """Return the range of a task that says no more than its own batch size."""
        return cls(own, max(1, own // 2), 2 * own, fixed_gb, sample_gb)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes to try, ascending; the task's own is one of them."""
        first = ceil(STEPS_PER_OCTAVE * log2(self.smallest / self.own))
        last = floor(STEPS_PER_OCTAVE * log2(self.largest / self.own))
        sizes = {round(self.own * 2 ** (step / STEPS_PER_OCTAVE)) for step in range(first, last + 1)}
        return tuple(sorted(size for size in sizes | {self.own} if self.smallest <= size <= self.largest))

    def memory_gb(self, batch: int) -> float:
        """Return the GPU memory that the task takes with a batch of this size."""
        return self.fixed_gb + self.sample_gb * batch


def fitting_batches(ranges: Sequence[BatchRange], capacity_gb: float) -> list[BatchSizes]:
    """Return all sizes that tasks may have together in this much memory, smallest first."""
    return [
        batches
        for batches in product(*(each.sizes for each in ranges))
        if sum(each.memory_gb(batch) for each, batch in zip(ranges, batches, strict=True)) <= capacity_gb
    ]
