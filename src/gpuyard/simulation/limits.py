"""What is refused before a run, because it would never end, never fit, or never start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError, nearest
from gpuyard.core.workload import Workload
from gpuyard.policies.feasibility import infeasible
from gpuyard.profiles import Zoo

MOST_ROUNDS = 1_000_000_000
"""A policy may have to decide in every round; and times must stay exact to a small part of one."""

_NAMED = 5
"""Jobs that a note names one by one."""


def check_rounds(workload: Workload, round_s: float, zoo: Zoo) -> None:
    """Refuse rounds so short, or jobs so long or late, that nobody would see the end."""
    iteration_s = np.array([zoo.profile(name).iteration_s for name in workload.models])[workload.model]
    alone_s = np.where(np.isnan(workload.duration_s), workload.iterations * iteration_s, workload.duration_s)
    ends_s = workload.arrival_s + np.where(workload.unmeasured, 0.0, alone_s)
    last = int(np.argmax(ends_s))
    if ends_s[last] > MOST_ROUNDS * round_s:
        raise InputError(
            f"makes {ends_s[last] / round_s:.0f} rounds until job {workload.job_id[last]} could end; "
            f"{MOST_ROUNDS} at most", field="round", value=round_s,
            hint=f"Make rounds longer, {ends_s[last] / MOST_ROUNDS:.3g} s or more, or the job shorter",
        )  # fmt: skip


def check_quotas(workload: Workload, quotas: Mapping[str, float]) -> None:
    """Refuse a quota that no job has to do with, or that keeps a job out for ever."""
    for tenant in quotas:
        if tenant not in workload.tenants:
            hint = nearest(tenant, workload.tenants)
            raise InputError("is not a tenant of the workload", field="quota", value=tenant, hint=hint)
    over = np.flatnonzero(_over_quota(workload, quotas))
    if len(over):
        job = workload.job(int(over[0]))
        raise InputError(
            f"GPUs for tenant {job.tenant} are too few for job {job.job_id}, which needs {job.gpus:g}",
            field="quota", value=quotas[job.tenant], hint="Raise it, or leave out such jobs with --skip-infeasible",
        )  # fmt: skip


def feasible_part(workload: Workload, cluster: Cluster, quotas: Mapping[str, float]) -> Workload:
    """Return the jobs that could run, of these and of those still to come; a note names the others."""
    rule = _Feasible(cluster, quotas)
    names = [str(name) for name in workload.job_id[~rule(workload)][: _NAMED + 1]]
    listed = ", ".join([*names[:_NAMED], *(["…"] if len(names) > _NAMED else [])])
    return workload.select(rule, f"the cluster or a quota has too few GPUs for {listed}")


@dataclass(frozen=True)
class _Feasible:
    cluster: Cluster
    quotas: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, workload: Workload) -> NDArray[np.bool_]:
        return ~(infeasible(workload, self.cluster) | _over_quota(workload, self.quotas))


def _over_quota(workload: Workload, quotas: Mapping[str, float]) -> NDArray[np.bool_]:
    limits = np.array([quotas.get(name, np.inf) for name in workload.tenants])
    return np.asarray(workload.gpus > limits[workload.tenant])
