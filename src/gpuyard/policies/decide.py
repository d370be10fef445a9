"""One decision: order the jobs, then let the allocation make a plan. Every engine decides through here."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.core.kernel import Ints, box
from gpuyard.core.ledger import Ledger
from gpuyard.core.workload import Workload
from gpuyard.policies.arrange import arrange
from gpuyard.policies.jobs import build_jobs
from gpuyard.policies.registry import Policy
from gpuyard.policies.snapshot import Keys, Plan, Snapshot, Tables, fresh_progress
from gpuyard.profiles import Zoo, load_zoo


class Decision(NamedTuple):
    """A plan, and the order of the active jobs it was made from, with the keys behind it."""

    plan: Plan
    order: Ints
    keys: Keys
    priority: Ints
    positions: Ints  # order[i] is the snapshot's active[positions[i]], as are keys and priority


def decide(policy: Policy, snapshot: Snapshot, rank: Ints | None = None) -> Decision:
    """Ask a policy what to do. Jobs with equal keys go by rank, or by arrival when none is given."""
    keys = _keys(policy, snapshot)
    priority = policy.priority(snapshot)
    positions = arrange(snapshot.active if rank is None else rank, priority, keys.key)
    order = snapshot.active[positions]
    return Decision(policy.allocate.plan(snapshot, order), order, keys, priority, positions)


def _keys(policy: Policy, snapshot: Snapshot) -> Keys:
    """Ask for keys, and refuse what is not one number for each job: kernels would read beyond its end."""
    ordered = policy.order(snapshot)
    keys = ordered if isinstance(ordered, Keys) else Keys(ordered, math.nan)
    found, wanted = getattr(keys.key, "shape", None), snapshot.active.shape
    if found != wanted:
        what = type(keys.key).__name__ if found is None else f"an array of shape {found}"
        rule = f"its order must return one key for each active job, an array of shape {wanted}, not {what}"
        raise InputError(rule, field="policy", value=policy.name)
    return keys if keys.key.dtype == np.float64 else keys._replace(key=keys.key.astype(np.float64))


def opening(cluster: Cluster, workload: Workload, *, now: float = 0.0, zoo: Zoo | None = None) -> Snapshot:
    """Return a snapshot in which every job has arrived and none runs yet: a world to try a policy on."""
    jobs = build_jobs(workload, cluster, zoo or load_zoo())
    ledger = Ledger(cluster, jobs.gpus, jobs.milli, jobs.wanted / jobs.gpus[:, None])
    tables = Tables(jobs, ledger.books, fresh_progress(jobs, jobs.best_speed, 0.0))
    no_quotas = np.empty(0, dtype=np.int64)
    return Snapshot(now, cluster, tables, box(tables), np.arange(len(workload)), no_quotas)
