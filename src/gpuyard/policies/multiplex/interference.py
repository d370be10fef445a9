"""How much tasks that share a GPU slow each other down: from what was measured, and how sure that is.

A task is slowed by each of the others, and these effects add up. An effect depends on who suffers and who disturbs: two
effects are alike if the same model suffers, if the same one disturbs, and if the models use a GPU alike. So a mix that
nobody has seen is judged by its pairs, and a model that nobody has seen by what it resembles. What was measured may be
of one task in a mix or of several together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Floats
from gpuyard.policies.multiplex.gaussian import distances, matern

USUAL_EFFECT = 0.3
"""What one task does to another where nothing is known; the mean of 30 published pairs is 0.33 (IADeep)."""
COMMON = 0.1
"""Variances of an effect: what all have in common, ..."""
OF_SUFFERER = 0.1
"""...what a model suffers from anybody, ..."""
OF_DISTURBER = 0.1
"""...what it does to anybody, ..."""
OF_PAIR = 0.05
"""...what is peculiar to a pair of models, ..."""
OF_LIKENESS = 0.1
"""...and what is common to models that use the GPU alike."""
LIKENESS = 0.3
"""How far apart models are, in parts of a GPU, that no longer use it alike."""
ACROSS_GPUS = 0.7
"""How alike an effect is on GPUs of two types."""
SPREAD = 0.2
"""The standard deviation of one task's slowdown from the sum of effects: with it, published mixes that are left out lie
as often within one and two deviations as they should."""
BATCH_EXPONENT = 0.5
"""A task disturbs by its relative batch size to this power: an assumption, which nobody has measured."""

MOST_MIXES = 65536
"""Of so many it is kept what they are to expect."""


class Usage(NamedTuple):
    """One of the tasks on a GPU, and how much it uses of it when it is alone."""

    model: str
    compute: float
    """The part of the time in which it keeps the GPU's processors busy, 0 to 1."""
    bandwidth: float
    """The same of the GPU's memory."""
    batch: float = 1.0
    """Its batch size, relative to that with which its use was measured."""


Mix = tuple[Usage, ...]


@dataclass(frozen=True)
class Observation:
    """What was measured once: by how much tasks of a mix were slower than alone; 0.5 is half as long again."""

    mix: Mix
    measured: tuple[int, ...]
    """Positions in the mix of those who were measured..."""
    slowdown: float
    """...and the sum of theirs."""
    error: float = 0.0
    """The standard error of the sum."""
    gpu: str = ""
    """The key of the GPU's type; empty where nobody says."""


class ExpectedSlowdown(NamedTuple):
    """What is expected of a task, and the standard deviation of that."""

    mean: float
    deviation: float


class _Effect(NamedTuple):
    """What one model does to another, each with the batch size with which its use was measured."""

    sufferer: tuple[str, float, float]
    disturber: tuple[str, float, float]
    gpu: str


@dataclass(frozen=True)
class InterferenceModel:
    """What has been learnt; without any observation, what is usual."""

    observations: tuple[Observation, ...] = ()

    def learn(self, *observations: Observation) -> InterferenceModel:
        """Return a model that knows these, too."""
        return InterferenceModel((*self.observations, *observations))

    def slowdowns(self, mix: Sequence[Usage], gpu: str = "") -> list[ExpectedSlowdown]:
        """Return what each task of a mix is to expect."""
        key = (tuple(mix), gpu)
        found = self._expected.get(key)
        if found is None:
            found = tuple(self._slowdown(mix, (position,), gpu) for position in range(len(mix)))
            if len(self._expected) >= MOST_MIXES:
                self._expected.clear()
            self._expected[key] = found
        return list(found)

    def total(self, mix: Sequence[Usage], gpu: str = "") -> ExpectedSlowdown:
        """Return the sum of what all tasks of a mix are to expect."""
        return self._slowdown(mix, tuple(range(len(mix))), gpu)

    def means(self, mix: Sequence[Usage], gpu: str = "") -> list[float]:
        """Return the same without saying how sure it is, which is much quicker."""
        return [
            max(0.0, sum(strength * self._mean_of(effect) for effect, strength in _effects(mix, (n,), gpu).items()))
            for n in range(len(mix))
        ]

    def _mean_of(self, effect: _Effect) -> float:
        if effect not in self._effect_means:
            across = _covariance([effect], self._known)
            self._effect_means[effect] = float(USUAL_EFFECT + (across @ self._posterior.weights)[0])
        return self._effect_means[effect]

    @cached_property
    def _expected(self) -> dict[tuple[Mix, str], tuple[ExpectedSlowdown, ...]]:
        return {}

    @cached_property
    def _effect_means(self) -> dict[_Effect, float]:
        return {}

    def _slowdown(self, mix: Sequence[Usage], measured: tuple[int, ...], gpu: str) -> ExpectedSlowdown:
        strengths = _effects(mix, measured, gpu)
        if not strengths:
            return ExpectedSlowdown(0.0, 0.0)
        effects, strength = list(strengths), np.array(list(strengths.values()))
        across = _covariance(effects, self._known)
        # Nobody gets faster by company, whatever the noise of a few samples may say.
        mean = max(0.0, float(strength @ (USUAL_EFFECT + across @ self._posterior.weights)))
        left = _covariance(effects, effects) - across @ self._posterior.gain @ across.T
        variance = max(0.0, float(strength @ left @ strength)) + len(measured) * SPREAD**2
        return ExpectedSlowdown(mean, sqrt(variance))

    @cached_property
    def _known(self) -> list[_Effect]:
        """The effects that play a part in what was measured, each once, however often it was seen."""
        found = (effect for each in self.observations for effect in _effects(each.mix, each.measured, each.gpu))
        return list(dict.fromkeys(found))

    @cached_property
    def _posterior(self) -> _Posterior:
        position = {effect: number for number, effect in enumerate(self._known)}
        precision, pull = np.zeros((len(position), len(position))), np.zeros(len(position))
        for each in self.observations:
            strengths = _effects(each.mix, each.measured, each.gpu)
            row = np.zeros(len(position))
            row[[position[effect] for effect in strengths]] = list(strengths.values())
            variance = len(each.measured) * SPREAD**2 + each.error**2
            precision += np.outer(row, row) / variance
            pull += row * (each.slowdown - USUAL_EFFECT * row.sum()) / variance
        # With the precision of what was measured instead of its variance, the work grows with pairs, not with samples.
        mixed = np.eye(len(position)) + precision @ _covariance(self._known, self._known)
        solved = (np.linalg.solve(mixed, pull), np.linalg.solve(mixed, precision))
        return _Posterior(*(np.asarray(each, dtype=np.float64) for each in solved))


class _Posterior(NamedTuple):
    """By what the covariance with known effects is to be multiplied: for the mean, and for what is known of it."""

    weights: Floats
    gain: Floats


def _effects(mix: Sequence[Usage], measured: Sequence[int], gpu: str) -> dict[_Effect, float]:
    """The effects on those who were measured, and how strong each is by the batch sizes of who disturbs."""
    strengths: dict[_Effect, float] = {}
    for sufferer, disturber in _pairs(mix, measured):
        effect = _Effect(sufferer[:3], disturber[:3], gpu)
        strengths[effect] = strengths.get(effect, 0.0) + disturber.batch**BATCH_EXPONENT
    return strengths


def _pairs(mix: Sequence[Usage], measured: Sequence[int]) -> Iterator[tuple[Usage, Usage]]:
    for position in measured:
        yield from ((mix[position], other) for number, other in enumerate(mix) if number != position)


def _covariance(one: Sequence[_Effect], other: Sequence[_Effect]) -> Floats:
    """How alike effects are."""
    if not one or not other:
        return np.zeros((len(one), len(other)))
    sufferer = _equal([each.sufferer[0] for each in one], [each.sufferer[0] for each in other])
    disturber = _equal([each.disturber[0] for each in one], [each.disturber[0] for each in other])
    same_gpu = _equal([each.gpu for each in one], [each.gpu for each in other])
    alike = matern(distances(_uses(one), _uses(other), np.full(4, LIKENESS)))
    variance = COMMON + OF_SUFFERER * sufferer + OF_DISTURBER * disturber + OF_PAIR * sufferer * disturber
    covariance: Floats = (variance + OF_LIKENESS * alike) * np.where(same_gpu > 0, 1.0, ACROSS_GPUS)
    return covariance


def _equal(one: Sequence[str], other: Sequence[str]) -> Floats:
    equal: Floats = (np.array(one)[:, None] == np.array(other)[None, :]).astype(np.float64)
    return equal


def _uses(effects: Sequence[_Effect]) -> Floats:
    return np.array([(*each.sufferer[1:], *each.disturber[1:]) for each in effects], dtype=np.float64)
