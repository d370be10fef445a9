"""How much tasks that share a GPU slow each other down: from what was measured, and how sure that is.

A task is slowed by each of the others, and these effects add up (`effects.py` says what is believed of each). So a mix
that nobody has seen is judged by its pairs, and a model that nobody has seen by what it resembles. What was measured
may be of one task in a mix or of several together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import NamedTuple, TypeVar

from gpuyard.policies.multiplex.effects import Effect, Effects, EffectsOnGpu, SeenSum, remember

SPREAD = 0.2
"""The standard deviation of one task's slowdown from the sum of effects: with it, of published mixes that are left out
80 % lie within one deviation and 94 % within two: rather too wide for one (68 % and 95 % are usual)."""
BATCH_EXPONENT = 0.5
"""A task disturbs by its relative batch size to this power: an assumption, which nobody has measured."""

MOST_MIXES = 65536
"""Of so many it is kept what they are to expect."""

MOST_SLOWDOWN = 1e9
"""No task is slower by more: it would need days for a step of a millisecond."""


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
T = TypeVar("T")


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


def is_slowdown(together: float, tasks: int) -> bool:
    """Whether this can be the sum of the slowdowns of so many tasks: none of them takes less than no time."""
    return -tasks <= together <= MOST_SLOWDOWN * tasks


class ExpectedSlowdown(NamedTuple):
    """What is expected of a task, and the standard deviation of that."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class InterferenceModel:
    """What has been learnt; without any observation, what is usual for tasks that use the GPU so much."""

    observations: tuple[Observation, ...] = ()

    def learn(self, *observations: Observation) -> InterferenceModel:
        """Return a model that knows these, too."""
        return InterferenceModel((*self.observations, *observations))

    def slowdowns(self, mix: Sequence[Usage], gpu: str = "") -> list[ExpectedSlowdown]:
        """Return what each task of a mix is to expect."""
        key = (tuple(mix), gpu)
        found = self._expected.get(key)
        if found is None:
            means = zip(self.means(mix, gpu), self._variances(mix, gpu), strict=True)
            each = tuple(ExpectedSlowdown(mean, sqrt(variance)) for mean, variance in means)
            found = remember(self._expected, key, each, MOST_MIXES)
        return list(found)

    def means(self, mix: Sequence[Usage], gpu: str = "") -> list[float]:
        """Return the same without saying how sure it is, which is quicker."""
        key = (tuple(mix), gpu)
        found = self._mean_of_each.get(key)
        if found is None:
            found = remember(self._mean_of_each, key, self._means(mix, gpu), MOST_MIXES)
        return list(found)

    def total(self, mix: Sequence[Usage], gpu: str = "") -> ExpectedSlowdown:
        """Return the sum of what all tasks of a mix are to expect."""
        strengths = list(_strengths(mix, range(len(mix)), gpu).items())
        if not strengths:
            return ExpectedSlowdown(0.0, 0.0)
        mean = sum(strength * self._effects.mean(effect) for effect, strength in strengths)
        variance = sum(
            strength * there * self._effects.shared(effect, other)
            for effect, strength in strengths
            for other, there in strengths
        )
        return ExpectedSlowdown(max(0.0, mean), sqrt(max(0.0, variance) + len(mix) * SPREAD**2))

    def _means(self, mix: Sequence[Usage], gpu: str) -> tuple[float, ...]:
        """Nobody gets faster by company, whatever the noise of a few samples may say."""
        effects = self._effects.on(gpu)
        who = _numbered(mix, effects)
        return tuple(
            max(0.0, sum([strength * effects.mean(one, other) for other, strength in _others(who, position)]))
            for position, (one, _) in enumerate(who)
        )

    def _variances(self, mix: Sequence[Usage], gpu: str) -> Iterator[float]:
        effects = self._effects.on(gpu)
        who, shared = _numbered(mix, effects), effects.shared
        for position, (one, _) in enumerate(who):
            variance, others = 0.0, _others(who, position)
            for number, (other, strength) in enumerate(others):
                beside = sum([there * shared(one, other, third) for third, there in others[:number]])
                variance += strength * (strength * shared(one, other, other) + 2.0 * beside)
            yield max(0.0, variance) + SPREAD**2 if others else 0.0

    @cached_property
    def _expected(self) -> dict[tuple[Mix, str], tuple[ExpectedSlowdown, ...]]:
        return {}

    @cached_property
    def _mean_of_each(self) -> dict[tuple[Mix, str], tuple[float, ...]]:
        return {}

    @cached_property
    def _effects(self) -> Effects:
        return Effects([_seen(each) for each in self.observations])


def _seen(one: Observation) -> SeenSum:
    variance = len(one.measured) * SPREAD**2 + one.error**2
    return SeenSum(_strengths(one.mix, one.measured, one.gpu), one.slowdown, variance)


def _strengths(mix: Sequence[Usage], measured: Sequence[int], gpu: str) -> dict[Effect, float]:
    """The effects on those who were measured, and how strong each is by the batch sizes of who disturbs."""
    strengths: dict[Effect, float] = {}
    for position in measured:
        for disturber in _others(mix, position):
            effect = Effect(mix[position][:3], disturber[:3], gpu)
            strengths[effect] = strengths.get(effect, 0.0) + disturber.batch**BATCH_EXPONENT
    return strengths


def _numbered(mix: Sequence[Usage], effects: EffectsOnGpu) -> list[tuple[int, float]]:
    """The number of each model of a mix, and how strongly its batch size lets it disturb."""
    return [(effects.number(each[:3]), each.batch**BATCH_EXPONENT) for each in mix]


def _others(mix: Sequence[T], position: int) -> list[T]:
    return [*mix[:position], *mix[position + 1 :]]
