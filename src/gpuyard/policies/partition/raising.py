"""Larger batches where a plan has time for them: room for requests that come all at once.

A slice does not wait until a batch is full, so that a larger one costs nothing until it is needed. What a second brings
at most says little about the few milliseconds of a period: there, requests at random come in bunches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt

from gpuyard.core.service import Service
from gpuyard.policies.partition.check import violations
from gpuyard.policies.partition.interface import PartitionPlan, Slice, Turn
from gpuyard.policies.partition.latency import LatencyModel, Running
from gpuyard.policies.partition.problem import Problem
from gpuyard.profiles.inference.model import BATCHES

ENOUGH = 4.0
"""Standard deviations of the requests of a period that a batch has places for beyond their mean."""
ROUNDING = 1e-9


def raised(plan: PartitionPlan, problem: Problem) -> PartitionPlan:
    """The same slices with larger batches; as it was where that would not hold any more."""
    found = _Raising(problem).raised(plan)
    broken = violations(found, problem.services, problem.cluster, problem.latency)
    return plan if broken else found


@dataclass(frozen=True, eq=False)
class _Raising:
    """What larger batches have to leave as it is: every SLO, and the rates that are planned for."""

    problem: Problem

    @cached_property
    def services(self) -> Mapping[int | str, Service]:
        return {each.service_id: each for each in self.problem.services}

    @cached_property
    def wanted(self) -> Mapping[int | str, float]:
        return dict(zip(self.services, self.problem.wanted.tolist(), strict=True))

    @cached_property
    def latency(self) -> Mapping[str, LatencyModel]:
        """By node."""
        cluster = self.problem.cluster
        kinds = zip(cluster.node_names, cluster.node_kind, strict=True)
        return {name: self.problem.latency[cluster.kinds[kind].gpu_type] for name, kind in kinds}

    def raised(self, plan: PartitionPlan) -> PartitionPlan:
        """On every GPU that does all it can; one that waits for its network would have no use of it."""
        slices, able = list(plan.slices), plan.capacity()
        gpus: dict[tuple[str, int], list[int]] = {}
        for number, part in enumerate(slices):
            gpus.setdefault((part.node, part.gpu), []).append(number)
        for numbers in gpus.values():
            parts = [slices[number] for number in numbers]
            if all(_is_back_to_back(part) for part in parts):
                for number, part in zip(numbers, self._raise(parts, able), strict=True):
                    slices[number] = part
        short = {name: min(rate, self._missing(name, able)) for name, rate in plan.unserved.items()}
        return replace(plan, slices=tuple(slices), unserved=short)

    def _missing(self, name: int | str, able: Mapping[int | str, float]) -> float:
        return max(self.services[name].rate_per_s - able.get(name, 0.0), 0.0)

    def _raise(self, parts: list[Slice], able: dict[int | str, float]) -> list[Slice]:
        """One GPU; `able` is what all GPUs together do for each service, and is kept up to date."""
        full: set[tuple[int, int]] = set()
        while True:
            short = [
                (spare, place) for place, spare in self._spare(parts, able) if place not in full and spare < ENOUGH
            ]
            if not short:
                return parts
            _, place = min(short)
            tried = self._larger(parts, *place)
            gained = _difference(tried, parts)
            if self._holds(tried, able, gained):
                parts = tried
                for name, rate in gained.items():
                    able[name] += rate
            else:
                full.add(place)

    def _spare(
        self, parts: list[Slice], able: Mapping[int | str, float]
    ) -> list[tuple[tuple[int, int], float]]:  # fmt: skip
        """By slice and turn, how many standard deviations its places are beyond the requests of a period."""
        found = []
        for s, part in enumerate(parts):
            for t, turn in enumerate(part.turns):
                if turn.batch == BATCHES:
                    continue
                mean = self.services[turn.service].rate_per_s / able[turn.service] * turn.batch
                found.append(((s, t), (turn.batch - mean) / sqrt(mean)))
        return found

    def _larger(self, parts: list[Slice], number: int, place: int) -> list[Slice]:
        """One more request in a batch, and what all turns of the GPU then take."""
        turns = list(parts[number].turns)
        turns[place] = replace(turns[place], batch=turns[place].batch + 1)
        grown = [*parts[:number], replace(parts[number], turns=tuple(turns)), *parts[number + 1 :]]
        running = [[self._running(part, turn) for turn in part.turns] for part in grown]
        found = []
        for here, part in enumerate(grown):
            latency = self.latency[part.node]
            beside = [each for k, others in enumerate(running) if k != here for each in others]
            takes = [latency.beside_ms(*each, beside) / 1000.0 for each in running[here]]
            timed = tuple(replace(turn, takes_s=s) for turn, s in zip(part.turns, takes, strict=True))
            found.append(replace(part, turns=timed, period_s=sum(takes)) if timed else part)
        return found

    def _running(self, part: Slice, turn: Turn) -> Running:
        return Running(self.services[turn.service].model, turn.batch, part.thousandths // 10)

    def _holds(
        self, parts: list[Slice], able: Mapping[int | str, float], gained: Mapping[int | str, float]
    ) -> bool:  # fmt: skip
        for part in parts:
            for turn in part.turns:
                if part.answer_s * 1000.0 > self.services[turn.service].slo_ms * (1 + ROUNDING):
                    return False
        return all(
            rate >= 0 or able[name] + rate >= min(self.wanted[name], able[name]) * (1 - ROUNDING)
            for name, rate in gained.items()
        )


def _is_back_to_back(part: Slice) -> bool:
    return part.period_s <= sum(turn.takes_s for turn in part.turns) * (1 + ROUNDING)


def _difference(after: list[Slice], before: list[Slice]) -> dict[int | str, float]:
    """Requests a second that are gained or lost."""
    gained = PartitionPlan(tuple(after)).capacity()
    for name, rate in PartitionPlan(tuple(before)).capacity().items():
        gained[name] -= rate
    return gained
