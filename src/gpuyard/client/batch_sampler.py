"""Batches for a loader whose size changes between two steps: each sample of an epoch is dealt once.

    sampler = SharedBatchSampler(RandomSampler(data), batch)
    for images, labels in DataLoader(data, batch_sampler=sampler, num_workers=4):
        train(images, labels)
        batch.step(samples=sampler.done())

A loader with workers fetches ahead: what was fetched with the old size is trained with that size. `done` says how large
the batch was that has been trained, so that its time counts for that size and not for the new one.

Until a size changes, batches are those of a plain loader of `own / parts` samples, the short last ones too.
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
        self._changed = False
        """Whether the size was another one than the task's own."""
        self._length: int | None = None
        """What was said to whoever asked how many batches an epoch has."""
        self._pass: Iterator[list[int]] = iter(())
        """What is left of the present pass."""

    def __len__(self) -> int:
        """Batches of an epoch, with the task's own size."""
        if not isinstance(self.sampler, Sized):
            raise TypeError("the sampler has no length")
        samples, part = len(self.sampler), self._batch.own // self.parts
        if self._divides:
            self._length = samples // part if self.drop_last else -(-samples // part)
        else:
            whole, rest = divmod(samples, self._batch.own)
            parts = min(self.parts, self._batch.own)
            self._length = whole * parts + (0 if self.drop_last else min(self.parts, rest))
        return self._length

    def __iter__(self) -> Iterator[list[int]]:
        """A pass over all samples. Once sizes have changed, whoever was told a length gets as many batches: passes then
        go on from one iteration to the next.
        """
        self._ahead.clear()
        begins = self._length is None or not self._changed
        dealt = 0
        while True:
            if begins:
                self._pass = self._one_pass()
            before = dealt
            for part in self._pass:
                self._ahead.append(len(part))
                self.samples += len(part)
                dealt += 1
                yield part
                self._note(self._batch.size)
                if self._changed and dealt == self._length:
                    return
            fruitless = begins and dealt == before
            if fruitless or not self._changed or self._length is None or dealt >= self._length:
                return
            begins = True

    def _one_pass(self) -> Iterator[list[int]]:
        left = iter(self.sampler)
        while step := list(islice(left, size := self._batch.size)):
            self._note(size)
            yield from self._parts_of(step, size)
        self.epochs += 1

    def _note(self, size: int) -> None:
        self._changed = self._changed or size != self._batch.own

    def _parts_of(self, step: list[int], size: int) -> Iterator[list[int]]:
        """The micro-batches of a step: a plain loader's, to the last one, until the size is another one."""
        if len(step) == size or self._changed or not self._divides:
            return iter(()) if self.drop_last and len(step) < size else _divided(step, self.parts)
        most = size // self.parts
        pieces = (step[start : start + most] for start in range(0, len(step), most))
        return (piece for piece in pieces if len(piece) == most or not self.drop_last)

    @property
    def _divides(self) -> bool:
        """Whether a plain loader could have micro-batches of this size."""
        return self._batch.own % self.parts == 0

    def done(self) -> int:
        """The oldest batch that is not done has been trained: its size; 0 where none was dealt."""
        return self._ahead.popleft() if self._ahead else 0


def _divided(step: list[int], parts: int) -> Iterator[list[int]]:
    """A batch in so many parts, none of them empty, whose sizes differ by one at the most."""
    left = iter(step)
    for number in range(min(parts, len(step))):
        yield list(islice(left, len(step) // parts + (number < len(step) % parts)))
