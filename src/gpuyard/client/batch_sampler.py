"""Batches for a loader whose size changes between two steps: each sample of an epoch is dealt once.

    sampler = SharedBatchSampler(RandomSampler(data), batch)
    for images, labels in DataLoader(data, batch_sampler=sampler, num_workers=4):
        train(images, labels)
        batch.step(samples=sampler.done())

A loader with workers fetches ahead: what was fetched with the old size is trained with that size. `done` says how large
the batch was that has been trained, so that its time counts for that size and not for the new one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sized
from itertools import islice

from gpuyard.client.shared_batch import SharedBatch


class SharedBatchSampler:
    """Takes indices from another sampler, as many at a time as the batch size is when they are asked for."""

    def __init__(self, sampler: Iterable[int], batch: SharedBatch, *, parts: int = 1, drop_last: bool = False) -> None:
        """With `parts`, a batch is dealt as so many micro-batches, of equal sizes as far as it can be divided."""
        if parts < 1:
            raise ValueError(f"parts must be at least 1, not {parts!r}")
        self.sampler, self.parts, self.drop_last = sampler, parts, drop_last
        self.epochs = 0
        """Passes over all samples that were ended."""
        self.samples = 0
        """Samples that were dealt, in all epochs together: what a schedule that goes by samples needs."""
        self._batch = batch
        self._ahead: deque[int] = deque()
        """Sizes of those that were dealt and are not done."""

    def __len__(self) -> int:
        if self._batch.may_change:
            raise TypeError("nobody knows how many batches an epoch has while their size may change")
        if not isinstance(self.sampler, Sized):
            raise TypeError("the sampler has no length")
        whole, rest = divmod(len(self.sampler), self._batch.size)
        return whole * min(self.parts, self._batch.size) + (0 if self.drop_last else min(self.parts, rest))

    def __iter__(self) -> Iterator[list[int]]:
        self._ahead.clear()
        left = iter(self.sampler)
        while step := list(islice(left, size := self._batch.size)):
            if len(step) < size and self.drop_last:
                break
            for part in _divided(step, self.parts):
                self._ahead.append(len(part))
                self.samples += len(part)
                yield part
        self.epochs += 1

    def done(self) -> int:
        """The oldest batch that is not done has been trained: its size; 0 where none was dealt."""
        return self._ahead.popleft() if self._ahead else 0


def _divided(step: list[int], parts: int) -> Iterator[list[int]]:
    """A batch in so many parts, none of them empty, whose sizes differ by one at the most."""
    left = iter(step)
    for number in range(min(parts, len(step))):
        yield list(islice(left, len(step) // parts + (number < len(step) % parts)))
