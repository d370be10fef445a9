"""The fixed facts about every job, as arrays: its size, its work, and its speed as a function of what it gets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.core.kernel import Floats, Ints
from gpuyard.core.ledger import WHOLE
from gpuyard.core.workload import Workload
from gpuyard.profiles import Zoo, demand_ladder, ladder

QUANTUM = 1024.0
"""Amounts are multiples of 1/1024, so that taking and returning them is exact."""


class Jobs(NamedTuple):
    """Arrays over jobs, and tables over sorts (jobs alike in model, slice and own demand) and node kinds."""

    arrival: Floats
    gpus: Ints  # physical GPUs it touches
    milli: Ints  # thousandths of each
    need: Ints  # thousandths in all
    widest: Ints  # one number: the most GPUs of any job
    size: Floats  # GPUs as the user counts them
    tenant: Ints
    priority: Ints
    ranked: Ints  # one number: 0 when all jobs have the same priority
    types: Ints  # bit t is set when GPU type t of the cluster will do
    iterations: Floats
    iteration_s: Floats  # at relative speed 1.0
    best_speed: Floats
    wanted: Floats  # job x (CPUs, memory GB, storage MB/s), the whole job
    sort: Ints
    ladders: Floats  # sort*kinds x steps x (CPUs, memory GB, storage MB/s, speed), per GPU
    top: Ints  # job x kind: the highest step that an empty node can grant
    wishes: Floats  # job x kind x (CPUs, memory GB, storage MB/s), per GPU, at that step
    wish_speed: Floats  # job x kind: the speed it has there
    share: Floats  # kind x RESOURCES, per GPU
    share_speed: Floats  # sort x kind
    penalty: Floats  # sort: factor on speed when the job spans nodes
    node_kind: Ints
    node_type: Ints


def build_jobs(workload: Workload, cluster: Cluster, zoo: Zoo) -> Jobs:
    """Look up every job's profile on every kind of node; raises InputError for a job that can never run."""
    milli = np.where(workload.gpus < 1, np.rint(workload.gpus * WHOLE), WHOLE).astype(np.int64)
    gpus = np.maximum(workload.gpus, 1).astype(np.int64)
    types = _type_masks(workload, cluster)
    refuse_unrunnable(workload, cluster, gpus, types)

    per_gpu = np.stack([workload.cpus, workload.memory_gb, workload.storage_mbps], axis=1) / gpus[:, None]
    sorts, sort = _sorts(workload, milli, per_gpu)
    share = np.floor(np.array([_per_gpu(kind.amounts, kind.gpus) for kind in cluster.kinds]) * QUANTUM) / QUANTUM
    tables = [
        _ladder(zoo, workload.models[model], part, own, share[k], kind.gpu_type)
        for model, part, own in sorts
        for k, kind in enumerate(cluster.kinds)
    ]
    kinds = len(cluster.kinds)
    ladders = np.full((len(tables), max(len(table) for table in tables), 4), np.nan)
    for row, table in enumerate(tables):
        ladders[row, : len(table)] = table
    share_speed = np.array([table[0, 3] for table in tables]).reshape(len(sorts), kinds)
    top = _top(gpus, sort, ladders, cluster)
    profiles = [zoo.profile(workload.models[model]) for model, _, _ in sorts]
    iteration_s = np.array([profile.iteration_s for profile in profiles])[sort]
    type_index = {name: i for i, name in enumerate(cluster.gpu_types)}
    kind_type = np.array([type_index.get(kind.gpu_type, -1) for kind in cluster.kinds])
    best_kind, best_speed = _best(types, sort, top, ladders, kind_type)
    each = np.arange(len(sort))
    wishes = np.stack([ladders[sort * kinds + k, top[:, k], :3] for k in range(kinds)], axis=1)
    return Jobs(
        arrival=workload.arrival_s,
        gpus=gpus,
        milli=milli,
        need=gpus * milli,
        widest=gpus.max(keepdims=True),
        size=workload.gpus,
        tenant=workload.tenant.astype(np.int64),
        priority=workload.priority.astype(np.int64),
        ranked=np.array([int(np.ptp(workload.priority) > 0)]),
        types=types,
        iterations=np.where(
            np.isfinite(workload.iterations),
            workload.iterations,
            workload.duration_s * share_speed[sort, best_kind] / iteration_s,
        ),
        iteration_s=iteration_s,
        best_speed=best_speed,
        wanted=wishes[each, best_kind] * gpus[:, None],
        sort=sort,
        ladders=ladders,
        top=top,
        wishes=wishes,
        wish_speed=np.stack([ladders[sort * kinds + k, top[:, k], 3] for k in range(kinds)], axis=1),
        share=share,
        share_speed=share_speed,
        penalty=np.array([profile.spread_penalty for profile in profiles]),
        node_kind=cluster.node_kind,
        node_type=kind_type[cluster.node_kind],
    )


def refuse_unrunnable(workload: Workload, cluster: Cluster, gpus: Ints, types: Ints) -> None:
    """Raise InputError for the first job that the cluster could not run even when empty."""
    kind_gpus = np.zeros(len(cluster.gpu_types), dtype=np.int64)
    for group in cluster.groups:
        if group.kind.gpus:
            kind_gpus[cluster.gpu_types.index(group.kind.gpu_type)] += group.count * group.kind.gpus
    widest = np.zeros(len(gpus), dtype=np.int64)
    for t, count in enumerate(kind_gpus):
        widest = np.where(types >> t & 1, np.maximum(widest, count), widest)
    bad = np.flatnonzero(gpus > widest)
    if len(bad):
        job = workload.job(int(bad[0]))
        what = f" of type {job.gpu_types}" if job.gpu_types else ""
        raise InputError(
            f"GPUs for job {job.job_id} are more than the {widest[bad[0]]}{what} that the cluster has",
            file=workload.source,
            field="gpus",
            value=int(gpus[bad[0]]),
            hint="Use a larger --cluster or leave the job out",
        )


def _per_gpu(amounts: tuple[float, ...], gpus: int) -> tuple[float, ...]:
    return tuple(amount / max(gpus, 1) for amount in amounts)


def _type_masks(workload: Workload, cluster: Cluster) -> Ints:
    every = (1 << len(cluster.gpu_types)) - 1
    masks = []
    for text in workload.gpu_types:
        names = [name for name in text.split("|") if name]
        masks.append(sum(1 << i for i, t in enumerate(cluster.gpu_types) if t in names) if names else every)
    return np.array(masks, dtype=np.int64)[workload.gpu_type]


def _sorts(workload: Workload, milli: Ints, per_gpu: Floats) -> tuple[list[tuple[int, int, Floats]], Ints]:
    keys = np.column_stack([workload.model.astype(np.float64), milli.astype(np.float64), per_gpu])
    keys = np.where(np.isnan(keys), -1.0, keys)
    if np.all(keys[:, 2:] == -1.0):  # the usual case, a thousand times faster than the general one
        code = workload.model.astype(np.int64) * (WHOLE + 1) + milli
        _, first, sort = np.unique(code, return_index=True, return_inverse=True)
        rows = keys[first]
    else:
        rows, sort = np.unique(keys, axis=0, return_inverse=True)
    return [(int(row[0]), int(row[1]), row[2:]) for row in rows], sort.reshape(-1).astype(np.int64)


def _ladder(zoo: Zoo, model: str, milli: int, own: Floats, share: Floats, gpu_type: str) -> Floats:
    part = milli / WHOLE
    amounts = (float(share[0]), float(share[1]), float(share[2]))
    if np.all(own < 0):
        table = ladder(zoo.profile(model), amounts, gpu_type)
    else:
        # A resource the job does not name is wished at its share.
        wish = [float(own[r]) / part if own[r] >= 0 else amounts[r] for r in range(3)]
        table = demand_ladder(wish[0], wish[1], wish[2], amounts)
    table = table.copy()
    table[:, :3] = np.floor(table[:, :3] * part * QUANTUM) / QUANTUM
    return table


def _top(gpus: Ints, sort: Ints, ladders: Floats, cluster: Cluster) -> Ints:
    kinds = len(cluster.kinds)
    pairs, inverse = np.unique(np.column_stack([sort, gpus]), axis=0, return_inverse=True)
    levels = np.zeros((len(pairs), kinds), dtype=np.int64)
    for row, (one, count) in enumerate(pairs):
        for k, kind in enumerate(cluster.kinds):
            if kind.gpus == 0:
                continue
            room = np.array(kind.amounts[:3]) / min(count, kind.gpus)
            table = ladders[one * kinds + k]
            fit = np.flatnonzero(np.all(table[:, :3] <= room + 1e-9, axis=1))
            levels[row, k] = fit[-1] if len(fit) else 0
    return levels[inverse.reshape(-1)]


def _best(types: Ints, sort: Ints, top: Ints, ladders: Floats, kind_type: Any) -> tuple[Ints, Floats]:
    count, kinds = top.shape
    best = np.full(count, -1.0)
    where = np.zeros(count, dtype=np.int64)
    for k in range(kinds):
        if kind_type[k] < 0:
            continue
        speed = np.where(types >> kind_type[k] & 1, ladders[sort * kinds + k, top[:, k], 3], -1.0)
        where = np.where(speed > best, k, where)
        best = np.maximum(best, speed)
    return where, best
