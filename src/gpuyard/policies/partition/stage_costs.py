"""What stages of applications take of GPUs, by the time that they have, and what more time saves."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from gpuyard.core.application import Stage
from gpuyard.policies.partition.latency import LatencyModel
from gpuyard.profiles.inference.model import BATCHES

ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class StageCost:
    """What a stage takes of GPUs, if it had slices of its own."""

    stage: Stage
    latency: tuple[LatencyModel, ...]

    def takes_ms(self, batch: int) -> float:
        """A batch on a whole GPU, the fastest there is."""
        return min(each.alone_ms(self.stage.model, batch, 100) for each in self.latency)

    def steps(self) -> list[tuple[float, float]]:
        """From the least time that it needs, the times at which it gets cheaper, and what a request a second costs."""
        return _steps(self.stage.model, self.latency, self.stage.per_request)


@cache
def _steps(model: str, latency: tuple[LatencyModel, ...], per_request: float) -> list[tuple[float, float]]:
    points = sorted(
        (2 * ms, ms / batch * percent * per_request)
        for each in latency for percent in each.gpu.slices for batch in range(1, BATCHES + 1)
        for ms in [each.alone_ms(model, batch, percent)]
    )  # fmt: skip
    found: list[tuple[float, float]] = []
    for ms, cost in points:
        if not found or cost < found[-1][1] - ROUNDING:
            found.append((ms, cost))
    return found


Gains = tuple[list[float], list[tuple[float, int]]]
"""By the milliseconds that each further step takes more: the most that is saved for each of them, and by which step."""


def gains_from(steps: Sequence[tuple[float, float]], k: int) -> Gains:
    """From this step on, each with the best of all up to it."""
    here_ms, here = steps[k]
    further = list(enumerate(steps[k + 1 :], start=k + 1))
    saved = [((here - cost) / (ms - here_ms), far) for far, (ms, cost) in further]
    return [ms - here_ms for _, (ms, _) in further], list(accumulate(saved, max))


def best_gain(gains: Gains, left_ms: float) -> tuple[float, int] | None:
    """The best for which so much time is enough; None where it is enough for none."""
    number = bisect_right(gains[0], left_ms)
    return gains[1][number - 1] if number else None
