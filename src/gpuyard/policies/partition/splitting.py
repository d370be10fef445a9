"""How much of an application's SLO each of its stages gets, so that no way through them takes longer than it.

A stage with more time can gather larger batches or use a smaller slice: each millisecond goes where it saves the most
of a GPU. What a stage alone would cost is only an estimate, so that plain proportional splits are planned too, and the
split with the best plan is taken.

A stage that is asked in bunches may take longer than its part, which is for requests that come one by one. Where a
plan's applications would be late for that (`end_to_end.py`), the SLO is split anew, with that time set aside, or less
of it altogether, so that bunches are smaller; until they are in time, or it has been tried often enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuyard.core.application import Application, Stage
from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.core.service import Service
from gpuyard.policies.partition.application_check import ApplicationCheck
from gpuyard.policies.partition.interface import Partition, PartitionPlan
from gpuyard.policies.partition.latency import LatencyModel, by_node
from gpuyard.policies.partition.stage_costs import StageCost, best_gain, gains_from
from gpuyard.policies.partition.turn_rates import service_rates
from gpuyard.profiles.inference.model import ServingGpu

USEFUL_BATCHES = (8, 16, 32)
"""At which the stages' times are taken for proportional splits."""
ROUNDING = 1e-9
ROUNDS = 8
"""In which splits are made anew for applications that would be late."""
MANY_STAGES, FEW_ROUNDS = 32, 2
"""Of all applications together, above which there are no more rounds than these: each plans for all of them."""
TIGHTER = 0.85
"""Of the SLO, and of that in each further round, that is split then."""

SloByStage = Mapping[str, float]
"""Milliseconds by stage."""


def stage_services(application: Application, split: SloByStage) -> list[Service]:
    """The services that an application's stages are."""
    return [
        Service(
            application.service_id(stage.name), stage.model,
            application.rate_per_s * stage.per_request, split[stage.name], at_once=stage.at_once,
        ) for stage in application.stages
    ]  # fmt: skip


def best_split(
    applications: Sequence[Application],
    services: Sequence[Service],
    cluster: Cluster,
    known: Mapping[str, ServingGpu],
    latency: Mapping[str, LatencyModel],
    policy: Partition,
) -> tuple[Service, ...]:
    """All services, those of the applications with the parts of their SLOs that gave the best plan."""
    search = _Search(tuple(applications), tuple(services), cluster, known, latency, policy)
    best = search.among({each.name: splits(each, list(latency.values())) for each in applications})
    aside = {each.name: dict.fromkeys((stage.name for stage in each.stages), 0.0) for each in applications}
    many = sum(len(each.stages) for each in applications) > MANY_STAGES
    for number in range(1, (FEW_ROUNDS if many else ROUNDS) + 1):
        late = search.late(best)
        if not late:
            break
        ways = {name: [split] for name, split in best.split.items()}
        for each in [one for one in applications if one.name in late]:
            longer_ms = late[each.name]
            aside[each.name] = {stage: max(ms, longer_ms[stage]) for stage, ms in aside[each.name].items()}
            ways[each.name] += _tighter(each, list(latency.values()), aside[each.name], TIGHTER**number)
        best = search.among(ways)
    return best.services


@dataclass(frozen=True, eq=False)
class _Tried:
    """Applications with their SLOs split, and the plan that came of it."""

    split: Mapping[str, SloByStage]
    services: tuple[Service, ...]
    plan: PartitionPlan
    check: ApplicationCheck
    quality: tuple[float, float, int, float]
    """What is unserved, how late applications are, the GPUs, and the least room turned round: less is better."""


@dataclass(frozen=True, eq=False)
class _Search:
    """What is planned for whichever split."""

    applications: tuple[Application, ...]
    plain: tuple[Service, ...]
    cluster: Cluster
    known: Mapping[str, ServingGpu]
    latency: Mapping[str, LatencyModel]
    policy: Partition

    def among(self, ways: Mapping[str, Sequence[SloByStage]]) -> _Tried:
        """The best of some splits of each application, the first of all others beside them."""
        best = self.tried({name: found[0] for name, found in ways.items()})
        for name, split in [(name, split) for name, found in ways.items() for split in found[1:]]:
            other = self.tried({**best.split, name: split})
            best = min(best, other, key=lambda each: each.quality)
        return best

    def tried(self, split: Mapping[str, SloByStage]) -> _Tried:
        """One split, planned."""
        stages = [each for one in self.applications for each in stage_services(one, split[one.name])]
        services = (*self.plain, *stages)
        plan = self.policy.plan(services, self.cluster, self.known)
        check = ApplicationCheck(plan, services, self.cluster, self.latency)
        late = sum(each.found / each.limit for each in check.violations(self.applications))
        rates = {each.service_id: each.rate_per_s for each in services}
        by_id = {each.service_id: each for each in services}
        able = service_rates(plan.slices, by_id, by_node(self.latency, self.cluster), plan.tail)
        missing = sum(plan.unserved[name] / rates[name] for name in plan.unserved) + len(plan.unserved)
        room = min(able.get(name, 0.0) / rate for name, rate in rates.items())
        return _Tried(split, services, plan, check, (missing, late, plan.gpus, -room))

    def late(self, of: _Tried) -> dict[str, dict[str, float]]:
        """Applications that may be late, and by how much each of their stages may exceed its part."""
        names = {each.where for each in of.check.violations(self.applications)}
        return {
            each.name: {
                stage: max(times.answer_s * 1000.0 - of.split[each.name][stage], 0.0)
                for stage, times in of.check.times(each).items()
            }
            for each in self.applications if each.name in names
        }  # fmt: skip


@dataclass(frozen=True)
class _Way:
    """An application whose stages get no more than a part of its SLO, or have time set aside beside their parts."""

    application: Application
    aside_ms: Mapping[str, float]
    part: float = 1.0

    @property
    def slo_ms(self) -> float:
        return self.application.slo_ms * self.part

    def longest(self, parts: Mapping[str, float]) -> float:
        return self.application.longest(self._whole(parts))

    def longest_through(self, parts: Mapping[str, float]) -> dict[str, float]:
        return self.application.longest_through(self._whole(parts))

    def _whole(self, parts: Mapping[str, float]) -> dict[str, float]:
        return {stage: ms + self.aside_ms.get(stage, 0.0) for stage, ms in parts.items()}


def splits(application: Application, latency: Sequence[LatencyModel]) -> list[dict[str, float]]:
    """Ways to split an SLO, the most promising first; one alone where the stages have SLOs of their own."""
    fixed = {stage.name: stage.slo_ms for stage in application.stages if stage.slo_ms is not None}
    free = [stage for stage in application.stages if stage.slo_ms is None]
    if application.longest({stage.name: fixed.get(stage.name, 0.0) for stage in application.stages}) > (
        application.slo_ms * (1 + ROUNDING)
    ):
        rule = f"is less than what the SLOs of its stages add up to (application {application.name!r})"
        raise InputError(rule, field="slo_ms", value=application.slo_ms)
    return _splits(_Way(application, {}), fixed, free, latency) if free else [dict(fixed)]


def _tighter(
    application: Application, latency: Sequence[LatencyModel], aside_ms: Mapping[str, float], part: float
) -> list[dict[str, float]]:
    """Splits that leave time for bunches; a stage with an SLO of its own may get less than it, too."""
    fixed = {stage.name: stage.slo_ms for stage in application.stages if stage.slo_ms is not None}
    free = [stage for stage in application.stages if stage.slo_ms is None]
    less = {name: ms * part for name, ms in fixed.items()}
    if not free:
        early = {name: max(ms - aside_ms[name], less[name]) for name, ms in fixed.items()}
        return _different([less, early])
    ways = [(_Way(application, aside_ms), fixed), (_Way(application, {}, part), fixed)]
    ways += [(_Way(application, {}, part), less)] if fixed else []
    least = {stage.name: 0.0 for stage in free}
    able = [(way, own) for way, own in ways if way.longest({**least, **own}) < way.slo_ms]
    return _different([split for way, own in able for split in _splits(way, own, free, latency)])


def _splits(
    way: _Way, fixed: Mapping[str, float], free: Sequence[Stage], latency: Sequence[LatencyModel]
) -> list[dict[str, float]]:
    costs = [StageCost(stage, tuple(latency)) for stage in free]
    found = [_proportional(way, fixed, {each.stage.name: each.takes_ms(b) for each in costs})
             for b in USEFUL_BATCHES]  # fmt: skip
    cheapest = _cheapest(way, fixed, costs)
    return _different([cheapest, *found] if cheapest else found)


def _different(found: list[dict[str, float]]) -> list[dict[str, float]]:
    """Each split once, whatever its last digits."""
    return list({tuple(round(split[name], 3) for name in sorted(split)): split for split in reversed(found)}.values())[
        ::-1
    ]


def _proportional(application: _Way, fixed: Mapping[str, float], takes: Mapping[str, float]) -> dict[str, float]:
    """Every stage as many times what it takes as the longest way allows; fixed ones keep theirs."""

    def scaled(factor: float) -> dict[str, float]:
        return {**fixed, **{name: ms * factor for name, ms in takes.items()}}

    low, high = 0.0, application.slo_ms / min(takes.values())
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if application.longest(scaled(middle)) <= application.slo_ms else (low, middle)
    return _filled(application, scaled(low), list(takes))


def _filled(application: _Way, split: dict[str, float], free: Sequence[str]) -> dict[str, float]:
    """The same with what time is left given to the stages, so that every way takes all of the SLO."""
    for name in free:
        left = application.slo_ms - application.longest_through(split)[name]
        split = split | {name: split[name] + max(left, 0.0)}
    return split


def _cheapest(application: _Way, fixed: Mapping[str, float], costs: Sequence[StageCost]) -> dict[str, float] | None:
    """From the least that each stage needs, step by step to what saves the most for each millisecond."""
    steps = {each.stage.name: each.steps() for each in costs}
    at = dict.fromkeys(steps, 0)

    def times() -> dict[str, float]:
        return {**fixed, **{name: steps[name][k][0] for name, k in at.items()}}

    if application.longest(times()) > application.slo_ms:
        return None
    gains = {name: gains_from(steps[name], 0) for name in at}
    while True:
        left = {name: application.slo_ms - ms for name, ms in application.longest_through(times()).items()}
        best = [(*found, name) for name, each in gains.items() if (found := best_gain(each, left[name]))]
        if not best:
            return _filled(application, times(), list(steps))
        _, far, name = max(best, key=lambda each: (each[0], each[2]))
        at[name], gains[name] = far, gains_from(steps[name], far)
