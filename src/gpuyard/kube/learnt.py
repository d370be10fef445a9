"""What a cluster has learnt of mixes, as a value, and as the ConfigMap that survives whoever learnt it.

Each measurement of a GPU counts once, whoever shows it again: with what was learnt it is noted up to which one of each
GPU that is. Measurements of one mix become one, surer each time, and there are never more than so many. A node's clock
may have been ahead: what is of the future waits until that is now, so that it keeps nothing away that comes before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeVar

from gpuyard.core.errors import InputError
from gpuyard.kube.amounts import moment
from gpuyard.kube.resources.shared_gpu import MeasuredMix
from gpuyard.policies.multiplex.interference import InterferenceModel, Mix, Observation
from gpuyard.policies.multiplex.observation_files import observations_text, parse_observations

CONFIG_MAP = "gpuyard-interference"
OBSERVATIONS, MARKS, UNREADABLE = "interference.json", "marks.json", "unreadable.json"
"""Its keys: what was learnt, how far each GPU was heard, and what was there that nobody could read."""
MOST_LEARNT = 1000
"""Mixes, by who was measured in them; the one that was seen least lately is forgotten first."""
MOST_MARKS = 10_000
MOST_BYTES = 900_000
"""A ConfigMap takes 1 MiB."""
LEAST_ERROR = 0.01
"""No mean is believed to be surer than this: what is measured now always counts a little."""

SLACK_S = 60.0
"""So far the clocks of nodes may be ahead of the leader's."""

K = TypeVar("K")
V = TypeVar("V")
LearntKey = tuple[Mix, tuple[int, ...], str]


@dataclass(frozen=True)
class HeardMark:
    """Up to where a GPU was heard: the time of its last measurement, and which ones of that time."""

    at: str = ""
    which: tuple[str, ...] = ()


@dataclass(frozen=True)
class Learnt:
    """What was learnt, the latest last, and from which measurements of each GPU."""

    mixes: Mapping[LearntKey, Observation] = field(default_factory=dict)
    marks: Mapping[str, HeardMark] = field(default_factory=dict)

    @property
    def observations(self) -> tuple[Observation, ...]:
        """For a model of interference."""
        return tuple(self.mixes.values())

    def hear(self, gpu: str, shown: Iterable[MeasuredMix], now_s: float) -> Learnt:
        """What is known after a GPU has shown its measurements; those that were heard before count no more."""
        now, latest = moment(now_s), moment(now_s + SLACK_S)
        mark = self.marks.get(gpu, HeardMark())
        astray = mark.at > latest  # it was noted before the leader's clock went back
        mark = HeardMark(now) if astray else mark
        past = (each for each in shown if each.at <= latest)
        new = [each for each in sorted(past, key=lambda each: each.at) if _is_after(mark, each)]
        if not new and not astray:
            return self
        mixes = dict(self.mixes)
        for each in new:
            mark = _moved(mark, each)
            observation = each.observation()
            if observation is not None:  # what makes no sense teaches nobody, and is not looked at again
                told = _in_order(observation)
                key = told.mix, told.measured, told.gpu
                before = mixes.pop(key, None)
                mixes[key] = told if before is None else _together(before, told)
        marks = {name: each for name, each in self.marks.items() if name != gpu} | {gpu: mark}
        return Learnt(_newest(mixes, MOST_LEARNT), _newest(marks, MOST_MARKS))


def _is_after(mark: HeardMark, one: MeasuredMix) -> bool:
    return one.at > mark.at or (one.at == mark.at and _identity(one) not in mark.which)


def _moved(mark: HeardMark, one: MeasuredMix) -> HeardMark:
    same = mark.which if one.at == mark.at else ()
    return HeardMark(one.at, (*same, _identity(one)))


def _identity(one: MeasuredMix) -> str:
    """Tells measurements of one second apart."""
    return blake2b(repr((one.company, one.measured, one.slowdown)).encode(), digest_size=6).hexdigest()


def _in_order(one: Observation) -> Observation:
    """The same with its mix sorted, so that equal company is one mix."""
    order = sorted(range(len(one.mix)), key=lambda position: (one.mix[position], position not in one.measured))
    place = {before: now for now, before in enumerate(order)}
    mix, measured = tuple(one.mix[each] for each in order), tuple(sorted(place[each] for each in one.measured))
    return Observation(mix, measured, one.slowdown, one.error, one.gpu)


def _together(one: Observation, other: Observation) -> Observation:
    """Two measurements of one mix as one: the surer one counts more."""
    weights = [1.0 / max(each.error, LEAST_ERROR) ** 2 for each in (one, other)]
    mean = (weights[0] * one.slowdown + weights[1] * other.slowdown) / sum(weights)
    return Observation(one.mix, one.measured, mean, float(sum(weights) ** -0.5), one.gpu)


def _newest(kept: dict[K, V], most: int) -> dict[K, V]:
    return dict(list(kept.items())[-most:])


def write_learnt(learnt: Learnt, unreadable: str = "") -> dict[str, str]:
    """The data of the ConfigMap; as much as it takes."""
    mixes = list(learnt.observations)
    while True:
        marks = {name: [each.at, *each.which] for name, each in learnt.marks.items()}
        data = {
            OBSERVATIONS: observations_text(InterferenceModel(tuple(mixes))),
            MARKS: json.dumps(marks, separators=(",", ":")),
        }
        if unreadable and _size(data) + len(unreadable.encode()) <= MOST_BYTES:
            data[UNREADABLE] = unreadable
        if _size(data) <= MOST_BYTES or not mixes:
            return data
        mixes = mixes[len(mixes) // 2 + 1 :]


def _size(data: Mapping[str, str]) -> int:
    return sum(len(text.encode()) for text in data.values())


def read_learnt(data: Mapping[str, str]) -> Learnt:
    """What the data of the ConfigMap say; InputError, one line, if they are damaged or of another version."""
    file = f"ConfigMap {CONFIG_MAP}, {OBSERVATIONS}"
    observations = parse_observations(str(data.get(OBSERVATIONS, "")), file).observations
    return Learnt({(each.mix, each.measured, each.gpu): each for each in observations}, _read_marks(data.get(MARKS)))


def _read_marks(text: object) -> dict[str, HeardMark]:
    try:
        found = json.loads(str(text))
        return {str(name): HeardMark(str(at), tuple(map(str, which))) for name, (at, *which) in found.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise InputError("is not a list of marks", file=f"ConfigMap {CONFIG_MAP}, {MARKS}") from None
