"""Curves through a few measured points: straight, with a floor, and from point to point."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuyard.core.errors import InputError

Numbers = Sequence[float]


@dataclass(frozen=True)
class FloorLine:
    """A straight line that never falls below a floor: a GPU that a small batch leaves half idle, then a busy one."""

    floor: float
    intercept: float
    slope: float

    def at(self, x: float) -> float:
        """Return the value at x."""
        return max(self.floor, self.intercept + self.slope * x)


def fit_line(xs: Numbers, ys: Numbers, weights: Numbers | None = None) -> FloorLine:
    """Return the straight line with the least squares, with no floor; level where it would fall."""
    heavy = weights or [1.0] * len(xs)
    total = sum(heavy)
    mean_x = sum(w * x for w, x in zip(heavy, xs, strict=True)) / total
    mean_y = sum(w * y for w, y in zip(heavy, ys, strict=True)) / total
    spread = sum(w * (x - mean_x) ** 2 for w, x in zip(heavy, xs, strict=True))
    together = sum(w * (x - mean_x) * (y - mean_y) for w, x, y in zip(heavy, xs, ys, strict=True))
    slope = max(0.0, together / spread) if spread else 0.0
    return FloorLine(0.0, mean_y - slope * mean_x, slope)


def fit_floor_line(xs: Numbers, ys: Numbers) -> FloorLine:
    """Return the best of all ways to take the first few points for the floor and the rest for the line."""
    candidates = [_with_floor(xs, ys, points) for points in range(max(1, len(xs) - 1))]
    return min(candidates, key=lambda curve: sum((curve.at(x) / y - 1) ** 2 for x, y in zip(xs, ys, strict=True)))


def _with_floor(xs: Numbers, ys: Numbers, points: int) -> FloorLine:
    floor = sum(ys[:points]) / points if points else 0.0
    # Errors count as shares: otherwise the largest batches would decide alone.
    line = fit_line(xs[points:], ys[points:], [1 / y**2 for y in ys[points:]])
    return FloorLine(floor, line.intercept, line.slope)


def between(xs: Numbers, ys: Numbers, x: float) -> float:
    """Return the value at an x within the points, on the straight line between its neighbours."""
    high = bisect_left(xs, x)
    if xs[high] == x:
        return ys[high]
    low = high - 1
    return ys[low] + (ys[high] - ys[low]) * (x - xs[low]) / (xs[high] - xs[low])


def between_points(points: Mapping[int, float], batch: int) -> float:
    """Return the value at a batch size, from point to point; raises InputError beyond the measured ones."""
    batches = sorted(points)
    if not batches[0] <= batch <= batches[-1]:
        raise InputError(
            f"is beyond the batch sizes that were measured, {batches[0]} to {batches[-1]}", field="batch", value=batch
        )
    return between(batches, [points[each] for each in batches], batch)


def beyond(xs: Numbers, ys: Numbers, curve: FloorLine, x: float) -> float:
    """Return the value at an x outside the points: the curve's, scaled to pass through the nearest point."""
    end = 0 if x < xs[0] else -1
    return ys[end] * curve.at(x) / curve.at(xs[end])
