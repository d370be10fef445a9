"""gpulet's experiments with gpuyard's planners: which of 1023 cases they serve, up to which rates, on how many GPUs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks.gpulet import FIVE, FIVE_COLUMNS, asked, at_index, families, gpus, known, rows, task_lists
from benchmarks.paper.cases import SHARED
from gpuyard.core.service import Service
from gpuyard.policies.partition.check import violations
from gpuyard.policies.partition.elastic import Elastic, Greedy, Squishy
from gpuyard.policies.partition.latency import LatencyModel
from gpuyard.profiles.inference import InferenceModel
from gpuyard.simulation.pool import Report, run_all

POLICIES: dict[str, Elastic] = {
    "elastic": Elastic(),
    "elastic, without interference": Elastic(interference=False),
    "squishy": Squishy(),
    "greedy": Greedy(),
}
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
    """What came of it. Valid: at the requested rates, with interference and buffer, by the validator."""

    served: bool = False
    valid: bool = False
    peak: int = 0
    requested_peak: int = 0
    """Without headroom for peaks of the arrivals, as gpulet's plans are counted."""
    holes: int = 0
    gpus: int = 0


Answers = dict[Task, Answer]


def tasks() -> list[Task]:
    """All of them; those that take longest first."""
    cases = [str(number) for number in range(len(rows(SHARED, "baseline_sched_1023.csv")))]
    names = {"family": families(SHARED), "list": task_lists(SHARED), "case": cases}
    return [Task(policy, what, name) for what, all_names in names.items() for policy in POLICIES for name in all_names]


def run_tasks(wanted: Sequence[Task]) -> Answers:
    """Plan everything once, in parallel, and say on stderr how far it is."""
    found: Answers = {}
    for outcome in run_all(run_task, wanted):
        found[wanted[outcome.index]] = outcome.result()
        if len(found) % 500 == 0 or len(found) == len(wanted):
            print(f"  {len(found)} of {len(wanted)} plans", file=sys.stderr, flush=True)
    return found


def run_task(task: Task, report: Report) -> Answer:
    """Plan one."""
    policy = POLICIES[task.policy]
    if task.what == "family":
        return _peak(policy, families(SHARED)[task.name], scan=task.policy == "elastic")
    if task.what == "list":
        plan = replace(policy, minimise=True).plan(task_lists(SHARED)[task.name], gpus(ENOUGH), known())
        return Answer(gpus=plan.gpus, served=not plan.unserved)
    row = rows(SHARED, "baseline_sched_1023.csv")[int(task.name)]
    served, requested, valid = _outcome(policy, asked(FIVE, row, FIVE_COLUMNS))
    report(1.0)
    return Answer(served=served, valid=requested and valid)


def _outcome(policy: Elastic, services: list[Service]) -> tuple[bool, bool, bool]:
    """Whether all is served with headroom, at the requested rates, and by a plan that holds."""
    plan = policy.plan(services, gpus(GPUS), known())
    latency = {
        key: LatencyModel(gpu, buffer=1.1, interpolation=InferenceModel.published_ms) for key, gpu in known().items()
    }
    broken = violations(plan, services, gpus(GPUS), latency)
    return not plan.unserved, not any(plan.unserved.values()), not broken


def _peak(policy: Elastic, services: list[Service], *, scan: bool) -> Answer:
    """The largest index that is served; and if so asked how many below it are not, each being tried."""
    served: dict[int, tuple[bool, bool]] = {}

    def tried(index: int, which: int) -> bool:
        if index not in served:
            served[index] = _outcome(policy, at_index(services, index))[:2]
        return served[index][which]

    peak = _largest(lambda index: tried(index, 0))
    holes = sum(not tried(index, 0) for index in range(1, peak)) if scan else 0
    return Answer(peak=peak, requested_peak=_largest(lambda index: tried(index, 1)), holes=holes)


def _largest(holds: Callable[[int], bool]) -> int:
    """By doubling and halving."""
    high = 1
    while holds(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
