"""Job facts as the original sees them: one table of scalars per CPU:GPU ratio, demands clamped to one server."""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats
from gpuyard.core.books import DEMANDS
from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.core.grants import WHOLE
from gpuyard.core.workload import Workload
from gpuyard.policies.feasibility import refuse_unmeasured, refuse_unrunnable
from gpuyard.policies.jobs import Jobs, bulk_ranks
from gpuyard.profiles import ModelProfile, Zoo, published_demand, stacked


def build_published_jobs(workload: Workload, cluster: Cluster, zoo: Zoo) -> Jobs:
    """Look up demand and speedup of every job; the original knows one kind of node and whole GPUs only."""
    if len(cluster.kinds) > 1:
        raise InputError("the original knows one kind of node", field="cluster", value=str(cluster), hint=_HINT)
    odd = np.flatnonzero(workload.gpus != np.floor(workload.gpus))
    if len(odd):
        raise InputError(
            f"job {workload.job_id[odd[0]]} needs a slice, and the original knows whole GPUs only",
            file=workload.source,
            field="gpus",
            value=float(workload.gpus[odd[0]]),
            hint=_HINT,
        )
    node = cluster.kinds[0]
    count = len(workload)
    gpus = workload.gpus.astype(np.int64)
    refuse_unmeasured(workload)
    refuse_unrunnable(workload, cluster)
    ratio = node.cpus / node.gpus
    profiles = [zoo.profile(name) for name in workload.models]
    scalars = [zoo.published(name, ratio) for name in workload.models]
    pairs, first, inverse = np.unique(
        np.column_stack([workload.model, gpus]), axis=0, return_index=True, return_inverse=True
    )
    demands = [published_demand(scalars[model], int(wide), node) for model, wide in pairs]
    demand = np.array([(d.cpus, d.memory_gb, d.storage_mbps) for d in demands], dtype=np.float64)
    speedup = np.array([d.speedup for d in demands], dtype=np.float64)
    iteration_s = np.array([one.iteration_s for one in scalars])[workload.model]
    index = inverse.reshape(-1)
    share = np.array([[amount / node.gpus for amount in node.amounts]])
    return Jobs(
        arrival=np.array(workload.arrival_s),  # read-only arrays, as Ray hands over, would compile every kernel again
        gpus=gpus,
        part=np.full(count, WHOLE, dtype=np.int64),
        need=gpus * WHOLE,
        widest=gpus.max(keepdims=True),
        smallest=gpus.min(keepdims=True) * WHOLE,
        size=np.array(workload.gpus),
        tenant=workload.tenant.astype(np.int64),
        priority=np.zeros(count, dtype=np.int64),
        ranked=np.zeros(1, dtype=np.int64),
        types=np.ones(count, dtype=np.int64),
        type_speed=speedup[index][:, None],
        type_kind=np.zeros((count, 1), dtype=np.int64),
        share_type_speed=np.ones((count, 1)),
        iterations=np.where(
            np.isfinite(workload.iterations), workload.iterations, np.floor(workload.duration_s / iteration_s)
        ),
        iteration_s=iteration_s,
        best_speed=speedup[index],
        share_speed=np.ones(count),
        demand=demand[index],
        demand_each=demand[index] / gpus[:, None],
        job_class=workload.model.astype(np.int64),
        shape=index,
        shapes=np.array([len(pairs)]),
        like=first.astype(np.int32)[index],
        bulk=bulk_ranks(pairs[:, 1], demand)[index],
        ladders=np.stack([_grid(profile) for profile in profiles]),
        top=np.zeros((count, 1), dtype=np.int64),
        demand_on=np.zeros((count, 1, DEMANDS)),
        share=share,
        penalty=np.ones(len(scalars)),
        slowdown=np.empty((0, 0)),
        stated=np.full((len(scalars), DEMANDS + 1), np.nan),
        **stacked([profile.surface() for profile in profiles])._asdict(),
        node_kind=np.array(cluster.node_kind),
        node_type=np.zeros(cluster.nodes, dtype=np.int64),
    )


def _grid(profile: ModelProfile) -> Floats:
    """A model's whole matrix as rows of (CPUs, memory GB, 0, throughput), for opt."""
    cpus, memory = np.meshgrid(profile.cpu_grid, profile.memory_grid, indexing="ij")
    return np.column_stack([cpus.ravel(), memory.ravel(), np.zeros(cpus.size), np.asarray(profile.throughput).ravel()])


_HINT = "Leave out --faithful"
