"""How fast a model is on one GPU type beside another: measured where it was, estimated from data sheets elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import hypot, log
from typing import Any, Literal, NamedTuple

from gpuyard.core.gpus import GpuKind
from gpuyard.profiles.gpus import gpu_kind
from gpuyard.profiles.reading import bundled_yaml

REFERENCE_GPU = "V100"
"""The GPU type on which the bundled throughputs were measured."""

COMPUTE_SHARE = 0.5
"""The part of a step's time that shrinks with FLOP/s, the rest with memory bandwidth.

A share fitted to all measured GPU kinds but one tells that one worse: five kinds are too few to fit it.
"""

BUNDLED = "gpu_speed.yaml"

SpeedOrigin = Literal["reference", "measured", "estimated", "unknown"]


class GpuSpeed(NamedTuple):
    """The throughput of a model on a GPU type that is fed enough, relative to the type of its profile."""

    factor: float
    origin: SpeedOrigin
    source: str
    expected_error: float = 0.0
    """Median error of such an estimate, as a share."""

    @property
    def estimated(self) -> bool:
        """Whether nobody measured it."""
        return self.origin in ("estimated", "unknown")

    def times(self, ratio: float, source: str, error: float) -> GpuSpeed:
        """Return an estimate that stands on this one."""
        return GpuSpeed(self.factor * ratio, "estimated", source, hypot(self.expected_error, error))


class SpeedTable(NamedTuple):
    """Speeds relative to the reference GPU, and how far estimates are off."""

    models: Mapping[str, Mapping[str, GpuSpeed]]
    """By model and GPU type."""
    typical: Mapping[str, GpuSpeed]
    """By GPU type: what stands in for models that were not measured there."""
    other_gpu_error: float

    def speed(self, model: str, kind: GpuKind, stated: Mapping[str, GpuSpeed] | None = None) -> GpuSpeed:
        """Return a model's speed on a GPU kind relative to the reference GPU; what is stated goes before the table."""
        known = {**self.typical, **self.models.get(model, {}), **(stated or {})}
        if kind.key in known:
            return known[kind.key]
        if not kind.has_data_sheet:
            return GpuSpeed(1.0, "unknown", f"nothing is known of {kind.key} but its name")
        anchors = [anchor for anchor in map(gpu_kind, known) if anchor.has_data_sheet]
        nearest = min(anchors, key=lambda anchor: distance(anchor, kind))
        ratio = roofline_ratio(kind, nearest)
        return known[nearest.key].times(ratio, f"data sheets, from {nearest.key}", self.other_gpu_error)


def distance(one: GpuKind, other: GpuKind) -> float:
    """Return how much two data sheets differ, in FLOP/s and bandwidth."""
    return hypot(log(one.flops["fp32"] / other.flops["fp32"]), log(one.bandwidth / other.bandwidth))


def roofline_ratio(kind: GpuKind, base: GpuKind) -> float:
    """Return how much faster a kind is than another if so much of the time is computing and the rest moving data."""
    computing = COMPUTE_SHARE * base.flops["fp32"] / kind.flops["fp32"]
    moving = (1 - COMPUTE_SHARE) * base.bandwidth / kind.bandwidth
    return 1 / (computing + moving)


def gpu_speed(
    model: str, gpu_type: str, measured_on: str = REFERENCE_GPU, stated: Mapping[str, GpuSpeed] | None = None
) -> GpuSpeed:
    """Return a model's speed on a GPU type relative to the type that it was measured on."""
    kind, base = gpu_kind(gpu_type), gpu_kind(measured_on)
    if not gpu_type or kind.key == base.key:
        return GpuSpeed(1.0, "reference", f"measured on {base.key}")
    if stated and kind.key in stated:
        return stated[kind.key]
    table = bundled_speeds()
    below = table.speed(model, base)
    if below.origin == "unknown":
        return below
    moved = {key: speed._replace(factor=speed.factor * below.factor) for key, speed in (stated or {}).items()}
    speed = table.speed(model, kind, {**moved, base.key: below})
    if base.key == REFERENCE_GPU or speed.origin == "unknown":
        return speed
    error = hypot(speed.expected_error, below.expected_error)
    origin: SpeedOrigin = "estimated" if speed.estimated or below.estimated else "measured"
    return GpuSpeed(speed.factor / below.factor, origin, speed.source, error)


@lru_cache(maxsize=1)
def bundled_speeds() -> SpeedTable:
    """Return the bundled table; `python -m benchmarks.zoo` writes it."""
    return parse_speeds(bundled_yaml(BUNDLED))


def parse_speeds(content: Mapping[str, Any]) -> SpeedTable:
    """Return the table that a file's content describes."""
    reference = {REFERENCE_GPU: GpuSpeed(1.0, "reference", f"measured on {REFERENCE_GPU}")}
    other_model = content["errors"]["other_model"]["median"]
    models: dict[str, Mapping[str, GpuSpeed]] = {}
    for group in content["measured"]:
        origin: SpeedOrigin = "estimated" if group.get("stand_in") else "measured"
        error = other_model if group.get("stand_in") else 0.0
        for model, factors in group["models"].items():
            speeds = {gpu: GpuSpeed(factor, origin, group["source"], error) for gpu, factor in factors.items()}
            models[model] = speeds | reference
    typical = {
        gpu: GpuSpeed(factor, "estimated", "the mean of the models measured there", other_model)
        for gpu, factor in content["typical"].items()
    }
    return SpeedTable(models, typical | reference, content["errors"]["other_gpu"]["median"])
