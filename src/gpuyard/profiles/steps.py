"""Step profiles: how long a model's forward and backward pass take on a GPU, by batch size."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from gpuyard.core.errors import InputError
from gpuyard.profiles.curves import FloorLine, between, beyond, fit_floor_line

STANDARD_BATCHES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Thirteen batch sizes that say as much as all 256 of them."""

StepOrigin = Literal["measured", "interpolated", "extrapolated"]

EXPECTED_ERRORS: dict[StepOrigin, float] = {"measured": 0.01, "interpolated": 0.021, "extrapolated": 0.085}
"""Mean error of a step time as a share, on 216 pairs of GPU and model; a measured one varies from run to run."""


class StepPoint(NamedTuple):
    """One step at one batch size."""

    batch: int
    forward_s: float
    backward_s: float
    """Loss, backward pass and optimizer step together."""
    measured: bool = True
    """False: its source predicted it, beyond what fitted into the memory."""
    peak_bytes: int | None = None
    persistent_bytes: int | None = None
    """Still allocated after the step."""
    memory_measured: bool = True


class StepTime(NamedTuple):
    """How long a step takes, and how sure that is."""

    forward_s: float
    backward_s: float
    origin: StepOrigin
    expected_error: float

    @property
    def step_s(self) -> float:
        """The whole step."""
        return self.forward_s + self.backward_s


@dataclass(frozen=True)
class StepProfile:
    """Steps of one model on one GPU kind, in one precision."""

    model: str
    gpu: str
    points: tuple[StepPoint, ...]
    """At least one, batch sizes increasing."""
    precision: str = "fp32"
    input_shape: tuple[int, ...] = ()
    """Of one sample."""
    optimizer: str = ""
    signatures: tuple[str, ...] = ()
    """Of the model's parameters; several where the model is built in several ways."""
    source: str = ""

    @property
    def batches(self) -> tuple[int, ...]:
        """The batch sizes that the profile has points for."""
        return tuple(point.batch for point in self.points)

    def at(self, batch: int) -> StepTime:
        """Return the time of a step: from point to point between batch sizes, floor and line beyond them."""
        if batch < 1:
            raise InputError("is not a batch size, which is at least 1", field="batch", value=batch)
        origin = self._origin(batch)
        forward, backward = (self._seconds(*part, batch) for part in self._parts)
        return StepTime(forward, backward, origin, EXPECTED_ERRORS[origin])

    @cached_property
    def _parts(self) -> tuple[tuple[list[float], FloorLine], tuple[list[float], FloorLine]]:
        """Seconds at each point and the curve beyond them, forward and backward."""
        forward, backward = [point.forward_s for point in self.points], [point.backward_s for point in self.points]
        return (forward, fit_floor_line(self.batches, forward)), (backward, fit_floor_line(self.batches, backward))

    def _seconds(self, seconds: list[float], curve: FloorLine, batch: int) -> float:
        first, last = self.points[0].batch, self.points[-1].batch
        if first <= batch <= last:
            return between(self.batches, seconds, batch)
        return beyond(self.batches, seconds, curve, batch)

    def _origin(self, batch: int) -> StepOrigin:
        high = bisect_left(self.batches, batch)
        if high == len(self.points) or batch < self.points[0].batch or not self.points[high].measured:
            return "extrapolated"
        return "measured" if self.points[high].batch == batch else "interpolated"


def signature(shapes: Iterable[tuple[int, ...]]) -> str:
    """Return a short name for a model's architecture, from the shapes of its parameters in their order.

    The number of classes does not matter. It is the number of rows of the last tensors, the main classifier's weight
    and bias, and of every other pair of a matrix and a vector with as many rows: the classifiers beside the main one.
    """
    listed = [tuple(shape) for shape in shapes]
    classes = listed[-1][:1] if listed else ()
    end = len(listed) - 1
    weights = {
        place
        for place in range(end)
        if listed[place][:1] == listed[place + 1] == classes and (len(listed[place]) == 2 or place == end - 1)
    }
    rowless = {end} | weights | {place + 1 for place in weights}
    text = ",".join(
        "x".join(map(str, (0, *shape[1:]) if place in rowless else shape)) for place, shape in enumerate(listed)
    )
    return hashlib.sha256(text.encode()).hexdigest()[:12]
