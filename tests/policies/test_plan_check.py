"""A user's plan is held to its form: compiled code would read beyond arrays of another."""

from typing import Any

import numpy as np
import pytest
from tests.builders import cluster, job, run

from gpuyard.core.arrays import Ints
from gpuyard.core.errors import InputError
from gpuyard.policies.allocate.tune import Tune
from gpuyard.policies.order.fifo import fifo
from gpuyard.policies.plan import Plan
from gpuyard.policies.policy import Policy
from gpuyard.policies.snapshot import Snapshot


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
