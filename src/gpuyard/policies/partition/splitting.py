"""How much of an application's SLO each of its stages gets, so that no way through them takes longer than it.

A stage with more time can gather larger batches or use a smaller slice: each millisecond goes where it saves the most
of a GPU. What a stage alone would cost is only an estimate, so that plain proportional splits are planned too, and the
split with the best plan is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from gpuyard.core.application import Application, Stage
from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.core.service import Service
from gpuyard.policies.partition.interface import Partition, PartitionPlan
from gpuyard.policies.partition.latency import LatencyModel, by_node
from gpuyard.policies.partition.turn_rates import service_rates
from gpuyard.profiles.inference.model import BATCHES, ServingGpu

USEFUL_BATCHES = (8, 16, 32)
"""At which the stages' times are taken for proportional splits."""
ROUNDING = 1e-9

Split = Mapping[str, float]
"""Milliseconds by stage."""


def stage_services(application: Application, split: Split) -> list[Service]:
    """The services that an application's stages are."""
    return [
        Service(
            application.service_id(stage.name), stage.model,
            application.rate_per_s * stage.per_request, split[stage.name],
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
    ways = {each.name: splits(each, list(latency.values())) for each in applications}
    chosen = {name: found[0] for name, found in ways.items()}

    def with_splits(of: Mapping[str, Split]) -> tuple[Service, ...]:
        stages = [each for application in applications for each in stage_services(application, of[application.name])]
        return (*services, *stages)

    def quality(of: Mapping[str, Split]) -> tuple[float, int, float]:
        wanted = with_splits(of)
        return _quality(policy.plan(wanted, cluster, known), wanted, by_node(latency, cluster))

    tried = [(name, split) for name, found in ways.items() for split in found[1:]]
    best = quality(chosen) if tried else None
    for name, split in tried:
        other = quality(chosen | {name: split})
        if best is None or other < best:
            best, chosen = other, chosen | {name: split}
    return with_splits(chosen)


def _quality(
    plan: PartitionPlan, services: Sequence[Service], latency: Mapping[str, LatencyModel]
) -> tuple[float, int, float]:
    """What is unserved, the GPUs, and the least room, the other way round: less is better."""
    rates = {each.service_id: each.rate_per_s for each in services}
    able = service_rates(plan.slices, {each.service_id: each for each in services}, latency, plan.tail)
    missing = sum(plan.unserved[name] / rates[name] for name in plan.unserved)
    room = min(able.get(name, 0.0) / rate for name, rate in rates.items())
    return missing + len(plan.unserved), plan.gpus, -room


def splits(application: Application, latency: Sequence[LatencyModel]) -> list[dict[str, float]]:
    """Ways to split an SLO, the most promising first; one alone where the stages have SLOs of their own."""
    fixed = {stage.name: stage.slo_ms for stage in application.stages if stage.slo_ms is not None}
    free = [stage for stage in application.stages if stage.slo_ms is None]
    if application.longest({stage.name: fixed.get(stage.name, 0.0) for stage in application.stages}) > (
        application.slo_ms * (1 + ROUNDING)
    ):
        rule = f"is less than what the SLOs of its stages add up to (application {application.name!r})"
        raise InputError(rule, field="slo_ms", value=application.slo_ms)
    if not free:
        return [dict(fixed)]
    costs = [_Cost(stage, tuple(latency)) for stage in free]
    found = [_proportional(application, fixed, {each.stage.name: each.takes_ms(b) for each in costs})
             for b in USEFUL_BATCHES]  # fmt: skip
    cheapest = _cheapest(application, fixed, costs)
    return _different([cheapest, *found] if cheapest else found)


def _different(found: list[dict[str, float]]) -> list[dict[str, float]]:
    """Each split once, whatever its last digits."""
    return list({tuple(round(split[name], 3) for name in sorted(split)): split for split in reversed(found)}.values())[
        ::-1
    ]


def _proportional(application: Application, fixed: Mapping[str, float], takes: Mapping[str, float]) -> dict[str, float]:
    """Every stage as many times what it takes as the longest way allows; fixed ones keep theirs."""

    def scaled(factor: float) -> dict[str, float]:
        return {**fixed, **{name: ms * factor for name, ms in takes.items()}}

    low, high = 0.0, application.slo_ms / min(takes.values())
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if application.longest(scaled(middle)) <= application.slo_ms else (low, middle)
    return _filled(application, scaled(low), list(takes))


def _filled(application: Application, split: dict[str, float], free: Sequence[str]) -> dict[str, float]:
    """The same with what time is left given to the stages, so that every way takes all of the SLO."""
    for name in free:
        left = application.slo_ms - application.longest_through(split)[name]
        split = split | {name: split[name] + max(left, 0.0)}
    return split


@dataclass(frozen=True, eq=False)
class _Cost:
    """What a stage takes of GPUs, if it had slices of its own."""

    stage: Stage
    latency: tuple[LatencyModel, ...]

    def takes_ms(self, batch: int) -> float:
        """A batch on a whole GPU, the fastest there is."""
        return min(each.alone_ms(self.stage.model, batch, 100) for each in self.latency)

    def steps(self) -> list[tuple[float, float]]:
        """From the least time that it needs, the times at which it gets cheaper, and what a request a second costs."""
        return _steps(self.stage.model, self.latency, self.stage.per_request)


@cache
def _steps(model: str, latency: tuple[LatencyModel, ...], per_request: float) -> list[tuple[float, float]]:
    points = sorted(
        (2 * ms, ms / batch * percent * per_request)
        for each in latency for percent in each.gpu.slices for batch in range(1, BATCHES + 1)
        for ms in [each.alone_ms(model, batch, percent)]
    )  # fmt: skip
    found: list[tuple[float, float]] = []
    for ms, cost in points:
        if not found or cost < found[-1][1] - ROUNDING:
            found.append((ms, cost))
    return found


def _cheapest(application: Application, fixed: Mapping[str, float], costs: Sequence[_Cost]) -> dict[str, float] | None:
    """From the least that each stage needs, step by step to what saves the most for each millisecond."""
    steps = {each.stage.name: each.steps() for each in costs}
    at = dict.fromkeys(steps, 0)

    def times() -> dict[str, float]:
        return {**fixed, **{name: steps[name][k][0] for name, k in at.items()}}

    if application.longest(times()) > application.slo_ms:
        return None
    while True:
        through = application.longest_through(times())
        gains = [
            ((steps[name][k][1] - steps[name][far][1]) / (steps[name][far][0] - steps[name][k][0]), name, far)
            for name, k in at.items() for far in range(k + 1, len(steps[name]))
            if through[name] + steps[name][far][0] - steps[name][k][0] <= application.slo_ms
        ]  # fmt: skip
        if not gains:
            return _filled(application, times(), list(steps))
        _, name, far = max(gains)
        at[name] = far
