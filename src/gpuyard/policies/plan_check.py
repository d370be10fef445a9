"""Holds a plan of a user's own allocation to its form, before compiled code reads its arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuyard.core.arrays import Ints
from gpuyard.core.cluster import RESOURCES
from gpuyard.core.errors import InputError
from gpuyard.policies.plan import NODES, PLACED, Plan
from gpuyard.policies.snapshot import Snapshot, moment_of

_TYPES = {"jobs": np.int64, "first": np.int64, "gpu_ids": np.int32, "amounts": np.float64, "stopped": np.int64,
          "reasons": np.int8}  # fmt: skip


def check_plan(policy: str, snapshot: Snapshot, order: Ints, plan: Any) -> None:
    """Raise InputError that names the policy, the field and the rule where a plan is not one of this snapshot."""

    def refuse(field: str, rule: str) -> InputError:
        return InputError(f"its plan's {field} {rule}", field="policy", value=policy)

    if not isinstance(plan, Plan):
        raise InputError(f"its plan must be a Plan, not {type(plan).__name__}", field="policy", value=policy)
    for name, dtype in _TYPES.items():
        if getattr(getattr(plan, name), "dtype", None) != dtype:
            raise refuse(name, f"must be an array of {dtype.__name__}")
    books, count = moment_of(snapshot).tables.books, len(plan.jobs)
    for name, length in (("first", count + 1), ("reasons", len(order))):
        if getattr(plan, name).shape != (length,):
            raise refuse(name, f"must have {length} entries")
    if plan.amounts.shape != (count, len(RESOURCES)):
        raise refuse("amounts", f"must have a row for each of its {count} jobs and {len(RESOURCES)} columns")
    for name in ("jobs", "stopped"):
        numbers = getattr(plan, name)
        if not np.isin(numbers, order).all() or len(np.unique(numbers)) != len(numbers):
            raise refuse(name, "must name active jobs, each once")
    if not (books.slot[plan.stopped] >= 0).all():
        raise refuse("stopped", "must name jobs that run")
    if not np.array_equal(np.diff(plan.first), books.lines[plan.jobs]) or plan.first[0] != 0:
        raise refuse("first", "must start at 0 and give each job as many GPUs as it needs")
    if len(plan.gpu_ids) != plan.first[-1] or ((plan.gpu_ids < 0) | (plan.gpu_ids >= len(books.gpu_node))).any():
        raise refuse("gpu_ids", f"must be {plan.first[-1]} numbers of GPUs of the cluster")
    _check_promises(refuse, snapshot, plan)
    if not (np.isfinite(plan.amounts) & (plan.amounts >= 0)).all():
        raise refuse("amounts", "must be finite numbers, 0 or more")
    if ((plan.reasons < PLACED) | (plan.reasons > NODES)).any():
        raise refuse("reasons", f"must be from {PLACED} to {NODES}")


def _check_promises(refuse: Callable[[str, str], InputError], snapshot: Snapshot, plan: Plan) -> None:
    """What users say of jobs and tenants holds under every policy: GPU types that a job may use, and quotas."""
    moment = moment_of(snapshot)
    jobs, books, _ = moment.tables
    job = np.repeat(plan.jobs, np.diff(plan.first))
    gpu_type = jobs.node_type[books.gpu_node[plan.gpu_ids]]
    strange = job[~(jobs.types[job] >> gpu_type & 1).astype(np.bool_)]
    if len(strange):
        raise refuse("gpu_ids", f"must not give job {snapshot.job_id_of(int(strange[0]))} a GPU type it may not use")
    starts = plan.jobs[books.slot[plan.jobs] < 0]
    if len(moment.limits) and len(starts):
        holders = np.union1d(np.setdiff1d(np.flatnonzero(books.slot >= 0), plan.stopped), starts)
        used = np.bincount(jobs.tenant[holders], jobs.need[holders], len(moment.limits))
        over = starts[used[jobs.tenant[starts]] > moment.limits[jobs.tenant[starts]]]
        if len(over):
            job = snapshot.job_id_of(int(over[0]))
            raise refuse("jobs", f"must not start job {job}: its tenant would have more than its quota")
