"""What is believed of effects is what the textbook says of a Gaussian process, whatever was asked before."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.policies.multiplex import effects as module
from gpuyard.policies.multiplex.effects import (
    ACROSS_GPUS,
    COMMON,
    LIKENESS,
    OF_DISTURBER,
    OF_LIKENESS,
    OF_PAIR,
    OF_SUFFERER,
    usual_effect,
)
from gpuyard.policies.multiplex.interference import (
    BATCH_EXPONENT,
    SPREAD,
    ExpectedSlowdown,
    InterferenceModel,
    Observation,
    Usage,
)

Pair = tuple[Usage, Usage, str]

USAGES = st.builds(
    Usage, st.sampled_from("abc"), st.sampled_from([0.2, 0.7]), st.sampled_from([0.1, 0.4]), st.sampled_from([1.0, 2.0])
)
MIXES = st.lists(USAGES, min_size=2, max_size=4).map(tuple)
SEEN = st.builds(
    lambda mix, slowdown, error, gpu: Observation(mix, (0, len(mix) - 1), slowdown, error, gpu),
    MIXES,
    st.floats(-0.1, 2),
    st.floats(0, 0.3),
    st.sampled_from(["", "V100"]),
)


def alike(one: Pair, other: Pair) -> float:
    """The covariance of two effects before anything was seen."""
    sufferer, disturber = one[0].model == other[0].model, one[1].model == other[1].model
    found = COMMON + OF_SUFFERER * sufferer + OF_DISTURBER * disturber + OF_PAIR * (sufferer and disturber)
    apart = np.array([*one[0][1:3], *one[1][1:3]]) - np.array([*other[0][1:3], *other[1][1:3]])
    scaled = sqrt(5) * float(np.linalg.norm(apart)) / LIKENESS
    found += OF_LIKENESS * (1 + scaled + scaled**2 / 3) * np.exp(-scaled)
    return float(found * (1 if one[2] == other[2] else ACROSS_GPUS))


def terms(mix: tuple[Usage, ...], measured: tuple[int, ...], gpu: str) -> list[tuple[Pair, float]]:
    return [
        ((mix[one], mix[other], gpu), mix[other].batch ** BATCH_EXPONENT)
        for one in measured
        for other in range(len(mix))
        if other != one
    ]


def together(one: list[tuple[Pair, float]], other: list[tuple[Pair, float]]) -> float:
    return sum(strength * there * alike(pair, also) for pair, strength in one for also, there in other)


def usual(asked: list[tuple[Pair, float]]) -> float:
    """What is expected of a sum of effects before anything was seen."""
    return sum(strength * usual_effect(disturber[:3]) for (_, disturber, _), strength in asked)


def by_the_book(seen: list[Observation], asked: list[tuple[Pair, float]], count: int) -> ExpectedSlowdown:
    """The posterior of a sum of effects, by the covariances of all that was seen."""
    told = [terms(each.mix, each.measured, each.gpu) for each in seen]
    noise = np.diag([len(each.measured) * SPREAD**2 + each.error**2 for each in seen])
    known = np.array([[together(one, other) for other in told] for one in told]) + noise
    left = [each.slowdown - usual(one) for each, one in zip(seen, told, strict=True)]
    across = np.array([together(asked, one) for one in told])
    mean = usual(asked) + across @ np.linalg.solve(known, left)
    variance = together(asked, asked) - across @ np.linalg.solve(known, across)
    return ExpectedSlowdown(max(0.0, float(mean)), sqrt(max(0.0, float(variance)) + count * SPREAD**2))


@settings(max_examples=60)
@given(st.lists(SEEN, min_size=1, max_size=4), st.lists(MIXES, min_size=1, max_size=3), st.sampled_from(["", "V100"]))
def test_expectations_are_those_of_the_textbook(
    seen: list[Observation], mixes: list[tuple[Usage, ...]], gpu: str
) -> None:
    model = InterferenceModel(tuple(seen))
    for mix in mixes:
        found = model.slowdowns(mix, gpu)
        for position, each in enumerate(found):
            assert each == pytest.approx(by_the_book(seen, terms(mix, (position,), gpu), 1), abs=1e-8)
        everybody = tuple(range(len(mix)))
        assert model.total(mix, gpu) == pytest.approx(by_the_book(seen, terms(mix, everybody, gpu), len(mix)), abs=1e-8)
        assert model.means(mix, gpu) == [each.mean for each in found]


def test_what_was_asked_before_and_what_was_forgotten_change_no_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    mix = (Usage("a", 0.2, 0.1), Usage("b", 0.7, 0.4, 2.0), Usage("c", 0.5, 0.2))
    seen = Observation(mix[:2], (0,), 0.8, 0.01)
    wanted = InterferenceModel((seen,)).slowdowns(mix)
    for most in ("MOST_PAIRS", "MOST_ROWS", "MOST_TYPES"):
        monkeypatch.setattr(module, most, 2)
    model = InterferenceModel((seen,))
    for number in range(20):
        model.slowdowns((*mix[::-1], Usage(f"m{number}", 0.1, 0.1)), gpu=f"kind{number}")
        model.slowdowns((Usage(f"m{number}", 0.1, 0.1), *mix))
    model._expected.clear()
    model._mean_of_each.clear()
    assert model.slowdowns(mix) == wanted
