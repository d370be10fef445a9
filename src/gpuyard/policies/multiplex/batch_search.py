"""Finds the best batch sizes of tasks that share a GPU, from as few measurements as it can.

Everything it goes by was measured: it asks for sizes, is told how they did, and only then asks for the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import log, pi, sqrt

import numpy as np

from gpuyard.core.arrays import Floats
from gpuyard.policies.multiplex.batch_grid import BatchSizes
from gpuyard.policies.multiplex.gaussian import GaussianProcess

MOST_MEASUREMENTS = 15
WORTHWHILE = 0.01
"""The search ends when nothing promises to be better than the best by more than this part."""
DOUBT = 0.1
"""The probability of the bound's being broken anywhere, from which the width of the bound follows."""
NARROWING = 0.1
"""The part of that width that is used: with all of it, so few measurements would all go into exploring."""
BASES = (2, 3, 5)


@dataclass
class BatchSearch:
    """A search among candidates, for the lowest value."""

    candidates: Sequence[BatchSizes]
    start: BatchSizes
    """Where the tasks are now: it is measured first."""
    _told: dict[BatchSizes, list[tuple[float, float]]] = field(default_factory=dict)
    _refused: set[BatchSizes] = field(default_factory=set)
    _fits: dict[int, GaussianProcess] = field(default_factory=dict)
    """The last process, by the number of measurements that it knows."""

    def __post_init__(self) -> None:
        if self.start not in self.candidates:
            raise ValueError(f"the search cannot begin at {self.start}, which is no candidate")
        self._points = np.log2(np.array(self.candidates, dtype=np.float64))
        self._first = self._first_points()

    def tell(self, batches: BatchSizes, value: float, error: float) -> None:
        """Take in what was measured at sizes, with its standard error."""
        self._told.setdefault(batches, []).append((value, error))

    def refuse(self, axis: int, size: int) -> None:
        """Take in that a task cannot have this size, nor a larger one, whatever others have."""
        self._refused |= {each for each in self.candidates if each[axis] >= size}

    @property
    def measurements(self) -> int:
        """How many measurements the search has used."""
        return sum(len(each) for each in self._told.values())

    @property
    def lowest(self) -> float | None:
        """The lowest value that was measured of sizes that can be had."""
        known = [_joined(samples)[0] for sizes, samples in self._told.items() if sizes not in self._refused]
        return min(known, default=None)

    def ask(self) -> BatchSizes | None:
        """Return the sizes to measure next; None when the search has ended."""
        if self.measurements >= MOST_MEASUREMENTS:
            return None
        first = next((each for each in self._first if each not in self._told and each not in self._refused), None)
        return first or (self._most_promising() if self._told else None)

    @property
    def best(self) -> BatchSizes | None:
        """The best sizes of those that were measured; None while there are none."""
        known = [each for each in self._told if each not in self._refused]
        if len(known) < 2:
            return known[0] if known else None
        # By what the process expects, not by what happened to be measured: one lucky sample must not decide.
        expected = self._fit().predict(np.log2(np.array(known, dtype=np.float64))).mean
        return known[int(np.argmin(expected))]

    def _most_promising(self) -> BatchSizes | None:
        open_ones = [n for n, each in enumerate(self.candidates) if each not in self._refused]
        best = self.best
        if not open_ones or best is None:
            return None
        process = self._fit()
        mean, deviation = process.predict(self._points[open_ones])
        bound = mean - self._width() * deviation
        incumbent = float(process.predict(np.log2(np.array([best], dtype=np.float64))).mean[0])
        chosen = int(np.argmin(bound))
        return self.candidates[open_ones[chosen]] if bound[chosen] < incumbent - WORTHWHILE else None

    def _width(self) -> float:
        """In how many standard deviations the truth lies everywhere, after so many measurements."""
        return sqrt(NARROWING * 2.0 * log(len(self.candidates) * self.measurements**2 * pi**2 / (6.0 * DOUBT)))

    def _fit(self) -> GaussianProcess:
        if self.measurements not in self._fits:
            self._fits = {self.measurements: self._fitted()}
        return self._fits[self.measurements]

    def _fitted(self) -> GaussianProcess:
        points = np.log2(np.array(list(self._told), dtype=np.float64))
        told = [_joined(each) for each in self._told.values()]
        return GaussianProcess.fit(points, np.array([mean for mean, _ in told]), np.array([error for _, error in told]))

    def _first_points(self) -> list[BatchSizes]:
        """Where the tasks are, and twice as many points as axes, spread evenly."""
        low, high = self._points.min(axis=0), self._points.max(axis=0)
        axes = self._points.shape[1]
        even = [low + (high - low) * np.array(point) for point in _even_points(axes, 2 * axes)]
        return [self.start, *(self.candidates[self._nearest(point)] for point in even)]

    def _nearest(self, point: Floats) -> int:
        return int(np.argmin(((self._points - point) ** 2).sum(axis=1)))


def _joined(samples: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The mean of measurements of one point, and its standard error."""
    values = [value for value, _ in samples]
    errors = [error for _, error in samples]
    return sum(values) / len(values), sqrt(sum(error * error for error in errors)) / len(values)


def _even_points(axes: int, count: int) -> Iterator[list[float]]:
    """Points that fill a cube evenly, however many are taken: Halton's, one base an axis."""
    for number in range(1, count + 1):
        yield [_radical_inverse(number, BASES[axis]) for axis in range(axes)]


def _radical_inverse(number: int, base: int) -> float:
    """The number's digits behind the point, the last first."""
    result, digit = 0.0, 1.0 / base
    while number:
        number, rest = divmod(number, base)
        result += rest * digit
        digit /= base
    return result
