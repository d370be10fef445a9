"""A Gaussian process over a few measured points: what a function is elsewhere, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, sqrt
from typing import NamedTuple, Self

import numpy as np

from gpuyard.core.arrays import Floats

LENGTHS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Distances, in units of the points' axes, over which a function may vary; each axis has its own."""
USUAL_LENGTH = 2.0
"""What is believed of lengths before much is measured: likely within an octave of this."""
DEVIATIONS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""By how much a function may vary, in its own unit: for logarithms of times, 0.1 is a tenth."""
USUAL_DEVIATION = 0.3
"""What is believed of that: likely within an octave, too."""
LEAST_ERROR = 0.002
"""No measurement is believed to be closer to the truth than this."""


def matern(distance: Floats) -> Floats:
    """Return the Matérn-5/2 correlation of points at these distances, of functions that are smooth but may bend."""
    scaled = sqrt(5.0) * distance
    correlation: Floats = (1.0 + scaled + scaled * scaled / 3.0) * np.exp(-scaled)
    return correlation


def matern_at(distance: float) -> float:
    """The same at one distance."""
    scaled = sqrt(5.0) * distance
    return (1.0 + scaled + scaled * scaled / 3.0) * exp(-scaled)


def distances(one: Floats, other: Floats, lengths: Floats) -> Floats:
    """Return the distance of each point of one to each of the other, with each axis in units of its length."""
    apart = (one[:, None, :] - other[None, :, :]) / lengths
    between: Floats = np.sqrt((apart * apart).sum(axis=2))
    return between


class Prediction(NamedTuple):
    """What is expected at each of some points, and its standard deviation."""

    mean: Floats
    deviation: Floats


class _Fit(NamedTuple):
    """How measurements are explained by a deviation and lengths."""

    belief: float
    """The logarithm of how likely they are, together with what is usual."""
    lengths: Floats
    deviation: float


@dataclass(frozen=True)
class GaussianProcess:
    """A process conditioned on what was measured; `fit` finds its lengths and its deviation."""

    points: Floats
    lengths: Floats
    deviation: float
    level: float
    """The function's mean where nothing is near."""
    inverse: Floats
    """Of the covariances between what was measured."""
    weights: Floats

    @classmethod
    def fit(cls, points: Floats, values: Floats, errors: Floats) -> Self:
        """Return the likeliest process: axis by axis, until all lengths have been tried beside those of the others."""
        axes = points.shape[1]
        best = _likeliest(points, values, errors, np.full((1, axes), USUAL_LENGTH))
        for axis in (*range(axes), *range(axes - 1)):
            tried = np.tile(best.lengths, (len(LENGTHS), 1))
            tried[:, axis] = LENGTHS
            best = max(best, _likeliest(points, values, errors, tried), key=lambda fit: fit.belief)
        covariance = best.deviation**2 * matern(distances(points, points, best.lengths)) + _noise(errors)
        inverse = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
        ones = inverse.sum(axis=0)
        level = float(ones @ values / ones.sum())
        return cls(points, best.lengths, best.deviation, level, inverse, inverse @ (values - level))

    def predict(self, points: Floats) -> Prediction:
        """Return what is expected at points, and how sure that is."""
        variance = self.deviation * self.deviation
        across = variance * matern(distances(points, self.points, self.lengths))
        known = np.einsum("ij,jk,ik->i", across, self.inverse, across)
        left = np.sqrt(np.maximum(variance - known, 1e-12))
        return Prediction(self.level + across @ self.weights, left)


def _noise(errors: Floats) -> Floats:
    return np.diag(np.maximum(errors, LEAST_ERROR) ** 2)


def _likeliest(points: Floats, values: Floats, errors: Floats, lengths: Floats) -> _Fit:
    """Return the best of these lengths, a row each, with any of the deviations; all are tried at once."""
    deviations = np.array(DEVIATIONS)
    correlations = np.stack([matern(distances(points, points, each)) for each in lengths])
    covariances = correlations[:, None] * (deviations**2)[None, :, None, None] + _noise(errors)
    inverses = np.linalg.inv(covariances)
    ones = inverses.sum(axis=-1)
    left = values - ((ones @ values) / ones.sum(axis=-1))[..., None]
    misfits = np.einsum("...i,...ij,...j", left, inverses, left)
    volumes = np.linalg.slogdet(covariances)[1]
    unusual = (np.log2(lengths / USUAL_LENGTH) ** 2).sum(axis=1)[:, None] + np.log2(deviations / USUAL_DEVIATION) ** 2
    # The level is a guess from the same values: what it explains is not a merit of the lengths.
    beliefs = -0.5 * (misfits + volumes + np.log(ones.sum(axis=-1)) + unusual)
    row, column = np.unravel_index(int(np.argmax(beliefs)), beliefs.shape)
    return _Fit(float(beliefs[row, column]), lengths[row], DEVIATIONS[int(column)])
