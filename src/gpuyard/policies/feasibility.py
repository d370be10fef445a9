"""Which jobs a cluster could run if it were empty."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.arrays import Ints
from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.core.workload import Workload
from gpuyard.profiles import gpu_key


def infeasible(workload: Workload, cluster: Cluster) -> NDArray[np.bool_]:
    """Mark the jobs that the cluster could not run even when empty."""
    return np.asarray(np.maximum(workload.gpus, 1) > _widest(workload, cluster))


def refuse_unrunnable(workload: Workload, cluster: Cluster) -> None:
    """Raise InputError for the first job that the cluster could not run even when empty."""
    bad = np.flatnonzero(infeasible(workload, cluster))
    if len(bad):
        job = workload.job(int(bad[0]))
        several = len(cluster.gpu_types) > 1
        which = f" of type {job.gpu_types}" if job.gpu_types else " of one type" if several else ""
        most = f"{_widest(workload, cluster)[bad[0]]}{which}"
        raise InputError(
            f"GPUs for job {job.job_id} are more than the {most} that the cluster has",
            file=workload.source,
            field="gpus",
            value=max(int(job.gpus), 1),
            hint="Use a larger --cluster, or leave out such jobs with --skip-infeasible",
        )


def refuse_unmeasured(workload: Workload) -> None:
    """Raise InputError for the first job of which nobody knows how much work it is: only a real one ends by itself."""
    bad = np.flatnonzero(workload.unmeasured)
    if len(bad):
        job = workload.job(int(bad[0]))
        raise InputError(
            f"is missing, and iterations too: job {job.job_id} ends when its command does, which nobody can simulate",
            file=workload.source,
            field="duration_s",
            hint="'gpuyard run' runs it until it ends",
        )


def _widest(workload: Workload, cluster: Cluster) -> Ints:
    """Return for each job the most GPUs of one type that it may use."""
    types = type_masks(workload, cluster)
    kind_gpus = np.zeros(len(cluster.gpu_types), dtype=np.int64)
    for group in cluster.groups:
        if group.kind.gpus:
            kind_gpus[cluster.gpu_types.index(group.kind.gpu_type)] += group.count * group.kind.gpus
    widest = np.zeros(len(workload), dtype=np.int64)
    for t, count in enumerate(kind_gpus):
        widest = np.where(types >> t & 1, np.maximum(widest, count), widest)
    return widest


def type_masks(workload: Workload, cluster: Cluster) -> Ints:
    """Return for each job the GPU types of the cluster that it may use: bit t is set when type t will do."""
    every = (1 << len(cluster.gpu_types)) - 1
    masks = []
    for text in workload.gpu_types:
        keys = {gpu_key(name) for name in text.split("|") if name}
        masks.append(sum(1 << i for i, t in enumerate(cluster.gpu_types) if gpu_key(t) in keys) if keys else every)
    return np.array(masks, dtype=np.int64)[workload.gpu_type]
