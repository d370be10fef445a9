"""How well a step time at a batch size that was not profiled can be told from those that were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from gpuyard.profiles.curves import FloorLine, fit_floor_line, fit_line
from gpuyard.profiles.measurements import sparse
from gpuyard.profiles.steps import StepPoint, StepProfile

Points = tuple[StepPoint, ...]
Predictor = Callable[[int], float]


@dataclass(frozen=True)
class Fit:
    """Mean errors of three methods on the rows of one GPU and model that they were not shown, as shares."""

    gpu: str
    model: str
    points: int
    """That a profile keeps."""
    held_out: int
    errors: dict[str, float | None]
    """By method; None without rows to test on."""


def assess(profile: StepProfile) -> Fit:
    """Predict every measured row that a sparse profile leaves out; if it leaves out none, each from all others."""
    measured = tuple(point for point in profile.points if point.measured)
    trials = _trials(measured)
    held_out = sum(len(hidden) for _, hidden in trials)
    errors = {
        name: sum(_error(method(shown), hidden) for shown, hidden in trials) / held_out if held_out else None
        for name, method in METHODS.items()
    }
    return Fit(profile.gpu, profile.model, len(sparse(measured)), held_out, errors)


def _trials(measured: Points) -> list[tuple[Points, Points]]:
    """Return pairs of what a method is shown and the rows between them that it is not shown."""
    shown = sparse(measured)
    if len(shown) < len(measured):
        return [(shown, tuple(point for point in measured if point not in shown))]
    return [(measured[:i] + measured[i + 1 :], measured[i : i + 1]) for i in range(1, len(measured) - 1)]


def _error(predict: Predictor, hidden: Points) -> float:
    return sum(abs(predict(point.batch) / (point.forward_s + point.backward_s) - 1) for point in hidden)


def _curves(fit: Callable[[Sequence[float], Sequence[float]], FloorLine], shown: Points) -> Predictor:
    batches = [point.batch for point in shown]
    forward = fit(batches, [point.forward_s for point in shown])
    backward = fit(batches, [point.backward_s for point in shown])
    return lambda batch: forward.at(batch) + backward.at(batch)


def _piecewise(shown: Points) -> Predictor:
    profile = StepProfile("", "", shown)
    return lambda batch: profile.at(batch).step_s


METHODS: dict[str, Callable[[Points], Predictor]] = {
    "line": partial(_curves, fit_line),
    "floor_line": partial(_curves, fit_floor_line),
    "piecewise": _piecewise,
}
"""The one that profiles use is the last."""


def thinned(profile: StepProfile, precision: str = "fp32") -> StepProfile:
    """Return the profile with the few points that it needs, and the precision in which they were measured."""
    return replace(profile, points=sparse(profile.points), precision=precision)
