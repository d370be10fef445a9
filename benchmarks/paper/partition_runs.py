"""gpulet's experiments with gpuyard's planners: which of 1023 cases they serve, up to which rates, on how many GPUs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks.gpulet import FIVE, FIVE_COLUMNS, asked, at_index, families, gpus, known, rows, task_lists
from benchmarks.paper.cases import SHARED
from gpuyard.core.service import Service
from gpuyard.policies.partition.check import violations
from gpuyard.policies.partition.elastic import Elastic, GreedySlices, Squishy
from gpuyard.policies.partition.latency import LatencyModel
from gpuyard.policies.partition.planner import served_by
from gpuyard.policies.partition.tail import USUAL_TAIL
from gpuyard.profiles.inference import InferenceModel
from gpuyard.simulation.pool import ReportShare, run_all

POLICIES: dict[str, Elastic] = {
    "elastic": Elastic(),
    "elastic, without interference": Elastic(interference=False),
    "squishy": Squishy(),
    "greedy": GreedySlices(),
}
OURS = "elastic"
READING = InferenceModel.published_ms
"""Of latencies between measured batches, as gpulet reads them."""
GPUS = 4
ENOUGH = 10
"""GPUs on which every task list can be served in any way."""
AVAILABLE = (SHARED / "gpulet" / "baseline_sched_1023.csv").is_file()
"""The recorded results are not in this repository."""


@dataclass(frozen=True)
class Task:
    """Something to plan: a case by its number, a family, or a task list."""

    policy: str
    what: str
    name: str


@dataclass(frozen=True)
class Answer:
    """What came of it. Valid: a plan that holds, with interference and buffer, by the validator."""

    served: bool = False
    valid: bool = False
    requested: bool = False
    """Whether the requested rates are served by a plan that holds, with headroom for peaks or without."""
    peak: int = 0
    requested_peak: int = 0
    """Without headroom for peaks of the arrivals, as gpulet's plans are counted."""
    holes: int = 0
    gpus: int = 0


Answers = dict[Task, Answer]


def tasks() -> list[Task]:
    """All of them."""
    cases = [str(number) for number in range(len(rows(SHARED, "baseline_sched_1023.csv")))]
    names = {"family": families(SHARED), "list": task_lists(SHARED), "case": cases}
    return [Task(policy, what, name) for policy in POLICIES for what, all_names in names.items() for name in all_names]


def run_tasks(wanted: Sequence[Task]) -> Answers:
    """Plan everything once, in parallel, and say on stderr how far it is."""
    found: Answers = {}
    for outcome in run_all(run_task, wanted):
        found[wanted[outcome.index]] = outcome.result()
        if len(found) % 500 == 0 or len(found) == len(wanted):
            print(f"  {len(found)} of {len(wanted)} plans", file=sys.stderr, flush=True)
    return found


def run_task(task: Task, report: ReportShare) -> Answer:
    """Plan one."""
    policy = POLICIES[task.policy]
    if task.what == "family":
        return _peak(policy, families(SHARED)[task.name], own=task.policy == OURS)
    if task.what == "list":
        plan = replace(policy, minimise=True).plan(task_lists(SHARED)[task.name], gpus(ENOUGH), known())
        return Answer(gpus=plan.gpus, served=not plan.unserved)
    services = asked(FIVE, rows(SHARED, "baseline_sched_1023.csv")[int(task.name)], FIVE_COLUMNS)
    served, valid = _outcome(policy, services)
    requested = valid or (task.policy == OURS and _requested(policy, services))
    report(1.0)
    return Answer(served=served, valid=valid, requested=requested)


def _outcome(policy: Elastic, services: list[Service], tail: float | None = USUAL_TAIL) -> tuple[bool, bool]:
    """Whether all is served, and by a plan that holds; who is served in part where all cannot be is not asked."""
    problem = replace(policy.problem(services, gpus(GPUS), known()), tail=tail)
    found = served_by(problem, problem.able, problem.gpus, fewest=False) if len(problem.able) == len(services) else None
    if found is None:
        return False, False
    latency = {key: LatencyModel(gpu, buffer=policy.buffer, interpolation=READING) for key, gpu in known().items()}
    return True, not violations(problem.plan(found), services, gpus(GPUS), latency)


def _peak(policy: Elastic, services: list[Service], *, own: bool) -> Answer:
    """The largest index that is served; of our own planner also at requested rates, and how many below it are not."""

    def served(index: int) -> bool:
        return _outcome(policy, at_index(services, index))[0]

    peak = _largest(served)
    if not own:
        return Answer(peak=peak)
    requested = _largest(lambda index: index == peak or _requested(policy, at_index(services, index)), start=peak)
    return Answer(peak=peak, requested_peak=requested, holes=sum(not served(index) for index in range(1, peak)))


def _requested(policy: Elastic, services: list[Service]) -> bool:
    """Whether the rates are served by a plan that holds, with room for peaks or without."""
    return any(all(_outcome(policy, services, tail)) for tail in (USUAL_TAIL, None))


def _largest(holds: Callable[[int], bool], start: int = 1) -> int:
    """By doubling what is added, and by halving."""
    if not holds(start):
        return 0
    low, step = start, 1
    while holds(low + step):
        low, step = low + step, 2 * step
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
