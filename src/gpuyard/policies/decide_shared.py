"""One decision about tasks that share GPUs: an order, who goes where, and what each gets beside its GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from gpuyard.core.cluster import RESOURCES, NodeKind
from gpuyard.core.errors import InputError
from gpuyard.core.workload import Job
from gpuyard.policies.allocate.proportional import Proportional
from gpuyard.policies.allocate.tune import Tune
from gpuyard.policies.decide import Ordered, ordered
from gpuyard.policies.multiplex import Multiplex, MultiplexPlan, SharedGpus
from gpuyard.policies.own_code import own_answer, own_code
from gpuyard.policies.policy import Policy
from gpuyard.policies.shared_amounts import Amounts, TunedAmounts, proportional_amounts
from gpuyard.policies.snapshot import Snapshot
from gpuyard.profiles import Zoo

Divide = Callable[[NodeKind, Mapping[Any, Job], Mapping[Any, int]], Mapping[Any, Amounts]]
"""What each task gets beside its GPU, on one node."""


class SharedSnapshot(NamedTuple):
    """What there is: as orders see it, and as multiplex policies do, with tasks in the order of arrival.

    Tasks that orders do not see stay where they are.
    """

    snapshot: Snapshot
    gpus: SharedGpus
    jobs: Mapping[int | str, Job]
    nodes: Mapping[str, NodeKind]


class SharedDecision(NamedTuple):
    """Who is where with what from now on; everybody else waits."""

    plan: MultiplexPlan
    amounts: Mapping[int | str, Amounts]
    """Beside each task's GPU, in the order of RESOURCES."""
    ordered: Ordered

    def beside(self, task: int | str) -> dict[str, float]:
        """What a task gets beside its GPU, by the names of RESOURCES."""
        return dict(zip(RESOURCES, self.amounts[task], strict=True))


class SharedDecider:
    """Decides by a policy for jobs and a multiplex policy."""

    def __init__(self, policy: Policy, multiplex: Multiplex, zoo: Zoo) -> None:
        if not isinstance(policy.allocate, (Proportional, Tune)):
            raise InputError(
                "cannot be joined with a multiplex policy: whoever shares a GPU gets a part of its share, or what can "
                "be spared", field="policy", value=policy.name, hint="Use the allocation proportional or tune",
            )  # fmt: skip
        self._policy, self._multiplex = policy, multiplex
        tune = policy.allocate if isinstance(policy.allocate, Tune) else None
        self._divide: Divide = proportional_amounts if tune is None else TunedAmounts(tune, zoo)

    def __call__(self, seen: SharedSnapshot) -> SharedDecision:
        """Ask an order who is first, the multiplex policy who goes where, and the allocation what each gets there."""
        order = ordered(self._policy, seen.snapshot)
        tasks = {task.name: task for task in seen.gpus.tasks}
        ranked = [seen.snapshot.job_id_of(int(number)) for number in order.order]
        stay = tuple(task for name, task in tasks.items() if name not in set(ranked))
        in_order = (*stay, *(tasks[name] for name in ranked if name in tasks))
        with own_code(self._policy.name, self._multiplex):
            plan = self._multiplex.plan(replace(seen.gpus, tasks=in_order))
        _check(plan, seen, self._multiplex)
        amounts: dict[int | str, Amounts] = {}
        for node, kind in seen.nodes.items():
            here = {name: place.gpu for name in tasks if (place := plan.places.get(name)) and place.node == node}
            if here:
                amounts |= self._divide(kind, {name: seen.jobs[name] for name in here}, here)
        return SharedDecision(plan, amounts, order)


def _check(plan: MultiplexPlan, seen: SharedSnapshot, multiplex: Multiplex) -> None:
    """Refuse an answer that leaves somebody out, or names what is not there."""
    gpus = {gpu.place: gpu for gpu in seen.gpus.gpus}
    for task in seen.gpus.tasks:
        place = plan.places.get(task.name)
        if place is None and task.name not in plan.waits:
            raise own_answer(f"its plan says nothing of task {task.name}", type(multiplex).__name__, multiplex)
        gpu = gpus.get((place.node, place.gpu)) if place else None
        if place is not None and (gpu is None or not gpu.up or not task.may_use(gpu.gpu_type)):
            rule = f"its plan gives task {task.name} GPU {place.gpu} of node {place.node}, which it cannot have"
            raise own_answer(rule, type(multiplex).__name__, multiplex)
