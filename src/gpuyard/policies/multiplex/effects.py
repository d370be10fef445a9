"""What one task does to another on the same GPU, as a Gaussian process: what is believed of it by what was seen.

Before anything was seen, that is what follows from how much it uses of the GPU; the process is of the difference. Two
effects are alike if the same model suffers, if the same one disturbs, and if the models use a GPU alike. What is
believed of single effects, and of two of them together, is worked out once; whoever adds effects up needs no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import dist
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np

from gpuyard.core.arrays import Floats
from gpuyard.policies.multiplex.gaussian import distances, matern, matern_at

BY_USE = 0.49
"""What one task does to another where nothing was measured, for each part of the time in which it keeps the GPU's
processors and, as much again, its memory busy: fitted to the sums of 23 published pairs, without those of alexnet
(IADeep). One that uses all of both nearly halves the speed of others."""
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

MOST_PAIRS, MOST_ROWS, MOST_TYPES = 65536, 2048, 64
"""What is worked out once is kept for so many pairs of effects on one type of GPU, so many effects and types."""

Who = tuple[str, float, float]
"""A model, and how much of a GPU's processors and memory it keeps busy."""

K = TypeVar("K")
V = TypeVar("V")


class Effect(NamedTuple):
    """What one model does to another, each with the batch size with which its use was measured."""

    sufferer: Who
    disturber: Who
    gpu: str


class SeenSum(NamedTuple):
    """A sum of effects that was measured: how strong each is in it, what it was, and its variance."""

    strengths: Mapping[Effect, float]
    value: float
    variance: float


def usual_effect(disturber: Who) -> float:
    """What one task does to another where nothing was measured: the more, the more it uses of the GPU."""
    _, compute, bandwidth = disturber
    return BY_USE * (compute + bandwidth)


def remember(kept: dict[K, V], key: K, value: V, most: int) -> V:
    """Keep a value for the next time, and forget all others where there would be too many."""
    if len(kept) >= most:
        kept.clear()
    kept[key] = value
    return value


class Effects:
    """What is believed of effects after some sums of them were seen."""

    def __init__(self, seen: Sequence[SeenSum]) -> None:
        self._seen = seen
        self._known = list(dict.fromkeys(effect for each in seen for effect in each.strengths))
        """The effects that play a part in what was seen, each once, however often it was seen."""
        self._by_gpu: dict[str, EffectsOnGpu] = {}
        self._rows: dict[Effect, tuple[Floats, Floats]] = {}

    def on(self, gpu: str) -> EffectsOnGpu:
        """The same on GPUs of one type."""
        found = self._by_gpu.get(gpu)
        if found is None or found.full:
            return remember(self._by_gpu, gpu, EffectsOnGpu(self, gpu), MOST_TYPES)
        return found

    def mean(self, effect: Effect) -> float:
        """What is expected of an effect."""
        return usual_effect(effect.disturber) + float(self._row(effect)[0] @ self._posterior.weights)

    def shared(self, one: Effect, other: Effect) -> float:
        """The covariance of what is not known of two effects; of an effect with itself, its variance."""
        left, right = sorted((one, other))  # the same digits, whoever is named first
        return _alike(left, right) - float(self._row(left)[0] @ self._row(right)[1])

    def _row(self, effect: Effect) -> tuple[Floats, Floats]:
        """How alike an effect and each of those are that play a part in what was seen, and what that says of it."""
        found = self._rows.get(effect)
        if found is None:
            alike = _covariance([effect], self._known)[0]
            found = remember(self._rows, effect, (alike, self._posterior.gain @ alike), MOST_ROWS)
        return found

    @cached_property
    def _posterior(self) -> _Posterior:
        position = {effect: number for number, effect in enumerate(self._known)}
        usual = np.array([usual_effect(effect.disturber) for effect in self._known])
        precision, pull = np.zeros((len(position), len(position))), np.zeros(len(position))
        for each in self._seen:
            row = np.zeros(len(position))
            row[[position[effect] for effect in each.strengths]] = list(each.strengths.values())
            precision += np.outer(row, row) / each.variance
            pull += row * (each.value - row @ usual) / each.variance
        # With the precision of what was measured instead of its variance, the work grows with pairs, not with samples.
        mixed = np.eye(len(position)) + precision @ _covariance(self._known, self._known)
        solved = (np.linalg.solve(mixed, pull), np.linalg.solve(mixed, precision))
        return _Posterior(*(np.asarray(each, dtype=np.float64) for each in solved))


class EffectsOnGpu:
    """What is believed of effects on GPUs of one type, worked out when it is first asked for; models have numbers here.

    Mixes that nobody has asked about come in hundreds, and their pairs are the same few: so a number is found quickly.
    """

    def __init__(self, effects: Effects, gpu: str) -> None:
        self._effects, self._gpu = effects, gpu
        self._who: list[Who] = []
        self._numbers: dict[Who, int] = {}
        self._lock = Lock()
        self._means: dict[tuple[int, int], float] = {}
        self._shared: dict[tuple[int, int, int], float] = {}

    @property
    def full(self) -> bool:
        """Whether so much is kept here that somebody should begin anew."""
        return len(self._shared) + len(self._means) >= MOST_PAIRS

    def number(self, who: Who) -> int:
        """The number of a model."""
        found = self._numbers.get(who)
        if found is None:
            with self._lock:  # or two threads give one number to two models
                if who not in self._numbers:
                    self._who.append(who)
                    self._numbers[who] = len(self._who) - 1
                found = self._numbers[who]
        return found

    def mean(self, sufferer: int, disturber: int) -> float:
        """What one is expected to do to another."""
        found = self._means.get((sufferer, disturber))
        if found is None:
            found = self._means[sufferer, disturber] = self._effects.mean(self._effect(sufferer, disturber))
        return found

    def shared(self, sufferer: int, one: int, other: int) -> float:
        """The covariance of what is not known of the effects that two have on one."""
        found = self._shared.get((sufferer, one, other))
        if found is None:
            found = self._effects.shared(self._effect(sufferer, one), self._effect(sufferer, other))
            self._shared[sufferer, one, other] = self._shared[sufferer, other, one] = found
        return found

    def _effect(self, sufferer: int, disturber: int) -> Effect:
        return Effect(self._who[sufferer], self._who[disturber], self._gpu)


class _Posterior(NamedTuple):
    """By what the covariance with known effects is to be multiplied: for the mean, and for what is known of it."""

    weights: Floats
    gain: Floats


def _covariance(one: Sequence[Effect], other: Sequence[Effect]) -> Floats:
    """How alike effects are before anything was seen, a row for each of one."""
    if not one or not other:
        return np.zeros((len(one), len(other)))
    sufferer = _equal([each.sufferer[0] for each in one], [each.sufferer[0] for each in other])
    disturber = _equal([each.disturber[0] for each in one], [each.disturber[0] for each in other])
    same_gpu = _equal([each.gpu for each in one], [each.gpu for each in other])
    alike = matern(distances(_uses(one), _uses(other), np.full(4, LIKENESS)))
    variance = COMMON + OF_SUFFERER * sufferer + OF_DISTURBER * disturber + OF_PAIR * sufferer * disturber
    found: Floats = (variance + OF_LIKENESS * alike) * np.where(same_gpu > 0, 1.0, ACROSS_GPUS)
    return found


def _alike(one: Effect, other: Effect) -> float:
    """The same of two, without arrays: mixes that nobody has asked about come in hundreds."""
    sufferer, disturber = one.sufferer[0] == other.sufferer[0], one.disturber[0] == other.disturber[0]
    variance = COMMON + OF_SUFFERER * sufferer + OF_DISTURBER * disturber + OF_PAIR * (sufferer and disturber)
    apart = dist(one.sufferer[1:] + one.disturber[1:], other.sufferer[1:] + other.disturber[1:]) / LIKENESS
    return (variance + OF_LIKENESS * matern_at(apart)) * (1.0 if one.gpu == other.gpu else ACROSS_GPUS)


def _equal(one: Sequence[str], other: Sequence[str]) -> Floats:
    equal: Floats = (np.array(one)[:, None] == np.array(other)[None, :]).astype(np.float64)
    return equal


def _uses(effects: Sequence[Effect]) -> Floats:
    return np.array([(*each.sufferer[1:], *each.disturber[1:]) for each in effects], dtype=np.float64)
