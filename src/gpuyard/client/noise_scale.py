"""The noise scale of a task's gradients, from the lengths of those of its micro-batches."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

SMOOTHING = 0.1
"""The weight of the newest estimate in the running means."""
VERY_LARGE = 1e9
"""A noise scale beside which no batch is large."""


@dataclass(frozen=True)
class NoiseScale:
    """The noise scale of gradients: the batch size at which noise and signal are equally strong.

    Both parts are smoothed before one is divided by the other: the mean of quotients would be of no use, since single
    estimates of the signal may be near 0 or below.
    """

    signal: float = 0.0
    """The squared length of the true gradient, as estimated."""
    noise: float = 0.0
    """The trace of the covariance of a single sample's gradient, as estimated."""
    updates: int = 0

    def updated(self, *, micro_batch: int, parts: int, mean_square: float, square_of_mean: float) -> NoiseScale:
        """Return the estimate after one more step of `parts` micro-batches.

        `mean_square` is the mean of the squared lengths of the micro-batches' gradients, `square_of_mean` the squared
        length of the mean of these gradients, which is that of the whole batch.
        """
        if micro_batch < 1 or parts < 2:
            raise ValueError("the noise scale takes at least two micro-batches of at least one sample")
        if not (isfinite(mean_square) and isfinite(square_of_mean)):
            return self
        small, big = micro_batch, micro_batch * parts
        signal = (big * square_of_mean - small * mean_square) / (big - small)
        noise = (mean_square - square_of_mean) / (1.0 / small - 1.0 / big)
        # The first updates count alike, so that the estimate does not stay near where it begins.
        weight = max(SMOOTHING, 1.0 / (self.updates + 1))
        return NoiseScale(
            self.signal + weight * (signal - self.signal), self.noise + weight * (noise - self.noise), self.updates + 1
        )

    @property
    def value(self) -> float | None:
        """The noise scale in samples; None while nothing is known.

        Where noise hides the signal so far that its estimate is 0 or below, the scale is a very large one: to know
        nothing then would count such a task as one for which larger batches are of no use, which is the contrary.
        """
        if not self.updates or self.noise <= 0:
            return None
        return VERY_LARGE if self.noise > VERY_LARGE * self.signal else self.noise / self.signal
