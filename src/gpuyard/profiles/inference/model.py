"""One model on one kind of GPU as a planner of slices asks about it. Times are milliseconds, slices percent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuyard.core.errors import InputError
from gpuyard.profiles.serving_parts import BATCHES, ONE_NUMBER, Interference, TensorKind, Traffic

__all__ = [
    "BATCHES", "ONE_NUMBER", "WHOLE_GPU", "InferenceModel", "Interference", "ServingGpu", "TensorKind", "Traffic",
]  # fmt: skip

WHOLE_GPU = 100
"""The slice, in percent, that is no slice."""


@dataclass(frozen=True, eq=False)
class InferenceModel:
    """One model on one kind of GPU."""

    name: str
    latency_ms: Mapping[int, Mapping[int, float]]
    """By slice and batch, as measured alone on the GPU."""
    gathering_ms: tuple[float, ...] = (0.0,) * BATCHES
    """What it takes to put a batch of 1, 2, … together."""
    memory_mb: float = 0.0
    input_bytes: int = 0
    traffic: Mapping[int, Traffic] = field(default_factory=dict)
    """By batch, at powers of two up to the largest; empty where nobody has measured it."""
    input: TensorKind = ONE_NUMBER
    output: TensorKind = ONE_NUMBER

    def __post_init__(self) -> None:
        if not self.latency_ms:
            raise InputError("has no latencies", field="model", value=self.name)
        if WHOLE_GPU not in self.latency_ms:
            raise InputError("has no latency on the whole GPU, 100 %", field="model", value=self.name)
        for percent, row in self.latency_ms.items():
            for batch in (1, BATCHES):
                if batch not in row:
                    rule = f"has no latency of batch {batch} on {percent} % of the GPU"
                    raise InputError(rule, field="model", value=self.name, hint="Between the two it is interpolated")

    def measured_ms(self, batch: int, percent: int) -> float:
        """The latency on a measured slice, from point to point between measured batches."""
        row = self.latency_ms[percent]
        if batch in row:
            return row[batch]
        below = max(each for each in row if each < batch)
        above = min(each for each in row if each > batch)
        return row[below] + (row[above] - row[below]) * (batch - below) / (above - below)

    def published_ms(self, batch: int, percent: int) -> float:
        """As gpulet's planner has it: a batch that was not measured borrows the effect of the slice from batch 32."""
        if batch in self.latency_ms[percent]:
            return self.latency_ms[percent][batch]
        least, most = min(self.latency_ms), max(self.latency_ms)
        whole, narrow = self.measured_ms(BATCHES, most), self.measured_ms(BATCHES, least)
        part = (self.measured_ms(BATCHES, percent) - whole) / (narrow - whole) if narrow != whole else 0.0
        fast, slow = self.measured_ms(batch, most), self.measured_ms(batch, least)
        return fast + part * (slow - fast)

    def cautious_ms(self, batch: int, percent: int) -> float:
        """Whichever of the two is longer: nobody knows what lies between measured batches."""
        return max(self.measured_ms(batch, percent), self.published_ms(batch, percent))

    def traffic_of(self, batch: int) -> Traffic:
        """Between powers of two, from point to point."""
        low = 1 << (batch.bit_length() - 1)
        high = min(BATCHES, 2 * low)
        part = 1.0 if high == low else (batch - low) / (high - low)
        below, above = self.traffic[low], self.traffic[high]
        return Traffic(*(part * b + (1 - part) * a for a, b in zip(below, above, strict=True)))


@dataclass(frozen=True, eq=False)
class ServingGpu:
    """One kind of GPU that serves, and what is known of models on it."""

    key: str
    memory_mb: float
    interference: Interference
    models: Mapping[str, InferenceModel]

    @property
    def slices(self) -> tuple[int, ...]:
        """The slices, in percent and ascending, on which every model was measured."""
        common = set.intersection(*(set(model.latency_ms) for model in self.models.values()))
        return tuple(sorted(common))
