"""Keeps what was measured of mixes as means: what is seen again and again is one observation, and surer each time."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt

from gpuyard.policies.multiplex.interference import InterferenceModel, Mix, Observation

MixKey = tuple[Mix, tuple[int, ...], str]


@dataclass
class _Mean:
    total: float = 0.0
    variance: float = 0.0
    count: int = 0


@dataclass
class MixMeans:
    """What was known before, and the means of what has been measured since."""

    before: InterferenceModel = field(default_factory=InterferenceModel)
    _means: dict[MixKey, _Mean] = field(default_factory=dict)
    _known: InterferenceModel | None = None

    def add(self, seen: Observation) -> None:
        """Take in a measurement. A mean is told anew each time that it has twice as many behind it: less is no news."""
        mean = self._means.setdefault((seen.mix, seen.measured, seen.gpu), _Mean())
        mean.total += seen.slowdown
        mean.variance += seen.error**2
        mean.count += 1
        if mean.count & (mean.count - 1) == 0:
            self._known = None

    @property
    def model(self) -> InterferenceModel:
        """What all of it teaches."""
        if self._known is None:
            means = (
                Observation(mix, measured, mean.total / mean.count, sqrt(mean.variance) / mean.count, gpu)
                for (mix, measured, gpu), mean in self._means.items()
            )
            self._known = self.before.learn(*means)
        return self._known
