"""A user's plan is held to its form: compiled code would read beyond arrays of another."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.builders import NODE, cluster, job, run, zoo
from tests.policies.scenarios.stories import node, runs, scene, told, waits

from gpuyard.core.arrays import Ints
from gpuyard.core.errors import InputError, StallError
from gpuyard.policies.allocate.tune import Tune
from gpuyard.policies.order.fifo import fifo
from gpuyard.policies.plan import Plan
from gpuyard.policies.policy import Policy
from gpuyard.policies.snapshot import Snapshot
from gpuyard.simulation.options import Options


class Spoiled(Tune):
    """Tune, with one thing about its plans spoilt."""

    def __init__(self, **spoilt: Any) -> None:
        super().__init__()
        object.__setattr__(self, "spoilt", spoilt)

    def plan(self, snapshot: Snapshot, order: Ints) -> Any:
        plan: Plan = super().plan(snapshot, order)
        changes: dict[str, Any] = {name: change(getattr(plan, name)) for name, change in vars(self)["spoilt"].items()}
        return plan._replace(**changes)


JOBS = [job(i) for i in range(4)]


@pytest.mark.parametrize(
    ("field", "change", "rule"),
    [
        ("stopped", lambda old: np.array([10**7]), "stopped must name active jobs"),
        ("stopped", lambda old: np.array([0]), "stopped must name jobs that run"),
        ("jobs", lambda old: old + 10**6, "jobs must name active jobs"),
        ("jobs", lambda old: old * 0, "jobs must name active jobs, each once"),
        ("jobs", lambda old: old.astype(np.float64), "jobs must be an array of int64"),
        ("jobs", lambda old: old.tolist(), "jobs must be an array of int64"),
        ("gpu_ids", lambda old: old + np.int32(10**6), "gpu_ids must be 4 numbers of GPUs of the cluster"),
        ("reasons", lambda old: old * 0 + np.int8(99), "reasons must be from -1 to 5"),
        ("reasons", lambda old: old[:0], "reasons must have 4 entries"),
        ("first", lambda old: old[:1], "first must have 5 entries"),
        ("first", lambda old: old * 2, "first must start at 0 and give each job as many GPUs as it needs"),
        ("amounts", lambda old: old[:, :1], "amounts must have a row for each of its 4 jobs and 4 columns"),
        ("amounts", lambda old: old * np.nan, "amounts must be finite numbers"),
        ("amounts", lambda old: -old, "amounts must be finite numbers, 0 or more"),
    ],
)
def test_what_is_wrong_with_a_plan_is_said_in_one_line(field: str, change: Any, rule: str) -> None:
    with pytest.raises(InputError, match="'mine'") as refusal:
        run(cluster(), JOBS, Policy("mine", fifo, Spoiled(**{field: change})))
    assert rule in str(refusal.value)


def test_a_plan_that_is_none() -> None:
    class Nothing:
        def plan(self, snapshot: Snapshot, order: Ints) -> Any:
            return None

    with pytest.raises(InputError, match="its plan must be a Plan, not NoneType"):
        run(cluster(), JOBS, Policy("mine", fifo, Nothing()))


def test_a_plan_in_form_is_carried_out() -> None:
    assert run(cluster(), JOBS, Policy("mine", fifo, Spoiled())).summary["unfinished"] == 0


class Untidy(Tune):
    """Leaves the order that it was given upside down."""

    def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
        plan = super().plan(snapshot, order)
        order[:] = order[::-1].copy()
        return plan


def test_what_an_allocation_does_to_its_order_is_its_own_affair() -> None:
    """Reasons to wait stand in the order's places: upside down, others would have waited for GPUs."""
    jobs = [job(i, hours=i + 1.0) for i in range(12)]
    assert run(cluster(), jobs, Policy("mine", fifo, Untidy())).jobs.equals(run(cluster(), jobs, "fifo+tune").jobs)


class Anywhere(Tune):
    """Takes each job for one that may use every GPU."""

    def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
        free = snapshot.facts
        free.quotas.clear()
        for job_id, fact in free.jobs.items():
            free.jobs[job_id] = replace(fact, job=replace(fact.job, gpu_types=""))
        return super().plan(Snapshot.of(free, zoo()), order)


def test_what_users_say_of_types_and_quotas_holds_under_every_plan() -> None:
    mine = Policy("mine", fifo, Anywhere())
    with pytest.raises(InputError, match="must not give job 0 a GPU type it may not use"):
        run(cluster("1x1", f"{NODE}+1x1:type=K80"), [job(0, "gnmt", types="K80")], mine)
    with pytest.raises(InputError, match=r"must not start job [0-2]: its tenant would have more than its quota"):
        run(cluster(), [job(i, tenant="red") for i in range(3)], mine, Options(quota={"red": 2.0}))


def test_what_a_plan_takes_away_is_on_no_quota_any_more() -> None:
    class Mine(Tune):
        pass

    held = [runs("stays", "a0", tenant="red", priority=2), runs("goes", "a1", tenant="red")]
    urgent = waits("comes", tenant="red", priority=1, at=1)
    plan = told(Policy("mine", fifo, Mine()), scene(node("a", 4), *held, urgent, quotas={"red": 2.0}))
    assert (set(plan.gets), plan.stops, plan.waits) == ({"comes"}, {"goes"}, {"goes": "quota"})


def test_who_gets_too_little_to_get_anywhere_is_named() -> None:
    class Stingy(Tune):
        def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
            plan = super().plan(snapshot, order)
            return plan._replace(amounts=plan.amounts * 0)

    with pytest.raises(
        StallError, match=r"mine gave job 0 so little that it never ends; beside each GPU it has cpus 0"
    ):
        run(cluster(), JOBS, Policy("mine", fifo, Stingy()))
