"""The fixed facts about every job, as arrays: its size, its work, and its speed as a function of what it gets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Floats, Ints, Small
from gpuyard.core.books import DEMANDS
from gpuyard.core.cluster import MOST_GPUS, Cluster
from gpuyard.core.grants import WHOLE
from gpuyard.core.workload import Workload
from gpuyard.policies.classes import QUANTUM, job_classes
from gpuyard.policies.feasibility import refuse_unmeasured, refuse_unrunnable, type_masks
from gpuyard.policies.recorded import recorded_speed
from gpuyard.profiles import Zoo


class Jobs(NamedTuple):
    """Arrays over jobs, and tables over classes (jobs alike in model, slice and stated demand) and node kinds.

    A *row* is a class on a kind of node: class * kinds + kind.
    """

    arrival: Floats
    gpus: Ints  # physical GPUs it touches
    part: Ints  # thousandths of each
    need: Ints  # thousandths in all
    widest: Ints  # one number: the most GPUs of any job
    smallest: Ints  # one number: the least thousandths that any job needs
    size: Floats  # GPUs as the user counts them, and as it has them while it runs beside others
    tenant: Ints
    priority: Ints
    ranked: Ints  # one number: 0 when all jobs have the same priority
    types: Ints  # bit t is set when GPU type t of the cluster will do
    type_speed: Floats  # job x GPU type: the best speed there
    type_kind: Ints  # job x GPU type: the kind of node with that type on which it is fastest
    share_type_speed: Floats  # job x GPU type: the speed there with the proportional share
    iterations: Floats
    iteration_s: Floats  # at relative speed 1.0
    best_speed: Floats
    share_speed: Floats  # with the proportional share, on the GPU type where that is fastest
    demand: Floats  # job x DEMANDS, the whole job
    demand_each: Floats  # job x DEMANDS, beside each GPU
    job_class: Ints
    shape: Ints  # jobs of one shape are alike in class, size and GPU types: in all but their work and owner
    shapes: Ints  # one number: how many there are
    like: Small  # the first job of the same shape: what goes by the shape is read there, always in the same few places
    bulk: Ints  # rank by need, then CPU and memory demand, the largest highest; equal for equals
    ladders: Floats  # row x steps x (CPUs, memory GB, storage MB/s, speed), per GPU
    top: Ints  # job x kind: the highest step that an empty node can grant
    demand_on: Floats  # job x kind x DEMANDS, per GPU, at that step
    share: Floats  # kind x RESOURCES, per GPU
    penalty: Floats  # class: factor on speed when the job spans nodes
    slowdown: Floats  # row x class: how much longer it takes beside the other; empty where no profile says anything
    stated: Floats  # row x (DEMANDS, speed): where a job states its demand, all it can use; NaN: the surface tells
    cpu_grid: Floats  # row x …: the surfaces, see profiles.surface
    memory_grid: Floats
    table: Floats
    saturation: Floats
    limits: Floats
    node_kind: Ints
    node_type: Ints


def build_jobs(
    workload: Workload, cluster: Cluster, zoo: Zoo, *, recorded_on: str | None = None, refuse: bool = True,
    thousandths: Ints | None = None,
) -> Jobs:  # fmt: skip
    """Look up every job's profile on every kind of node; raises InputError for a job that can never run, if asked to.

    `recorded_on` is the GPU type on which recorded durations were measured; see `recorded.py` for what holds without.
    `thousandths` are those of each GPU that each job is to have, where that is not what its size says.
    """
    usual = np.where(workload.gpus < 1, np.rint(workload.gpus * WHOLE), WHOLE).astype(np.int64)
    part = usual if thousandths is None else thousandths
    gpus = np.maximum(workload.gpus, 1).astype(np.int64)
    types = type_masks(workload, cluster)
    refuse_unmeasured(workload)
    if refuse:
        refuse_unrunnable(workload, cluster)
    share = _shares(cluster)
    classes, job_class = job_classes(workload, part, gpus, cluster, zoo, share)
    kinds = len(cluster.kinds)
    shape, first = _shapes(job_class, workload.gpus, types)
    top = _top(gpus[first], job_class[first], classes.ladders, cluster)[shape]
    kind_type = _kind_types(cluster)
    demand_speed = np.stack([classes.ladders[job_class * kinds + k, top[:, k], DEMANDS] for k in range(kinds)], axis=1)
    demand_on = np.stack([classes.ladders[job_class * kinds + k, top[:, k], :DEMANDS] for k in range(kinds)], axis=1)
    type_speed = _by_type(demand_speed, kind_type, types, len(cluster.gpu_types))
    best_kind = _best_kind(demand_speed, kind_type, types)
    share_by_kind = classes.ladders[:, 0, DEMANDS].reshape(-1, kinds)[job_class]
    share_type_speed = _by_type(share_by_kind, kind_type, types, len(cluster.gpu_types))
    iteration_s = classes.iteration_s[job_class]
    recorded = recorded_speed(workload, cluster, classes, job_class, types, share, recorded_on)
    demand = demand_on[np.arange(len(workload)), best_kind] * gpus[:, None]
    return Jobs(
        arrival=np.array(workload.arrival_s),  # read-only arrays, as Ray hands over, would compile every kernel again
        gpus=gpus,
        part=part,
        need=gpus * part,
        widest=gpus.max(keepdims=True, initial=1),
        smallest=(gpus * part).min(keepdims=True, initial=MOST_GPUS * WHOLE),
        size=np.where(part == usual, workload.gpus, gpus * part / WHOLE),
        tenant=workload.tenant.astype(np.int64),
        priority=workload.priority.astype(np.int64),
        ranked=np.array([int(np.any(workload.priority != workload.priority[:1]))]),
        types=types,
        type_speed=type_speed,
        iterations=np.where(
            np.isfinite(workload.iterations), workload.iterations, workload.duration_s * recorded / iteration_s
        ),
        iteration_s=iteration_s,
        best_speed=_positive(type_speed.max(axis=1)),
        type_kind=_type_kind(demand_speed, kind_type, len(cluster.gpu_types)),
        share_type_speed=share_type_speed,
        share_speed=_positive(share_type_speed.max(axis=1)),
        demand=demand,
        demand_each=demand / gpus[:, None],
        job_class=job_class,
        shape=shape,
        shapes=np.array([len(first)]),
        like=first.astype(np.int32)[shape],
        bulk=bulk_ranks((gpus * part)[first], demand[first])[shape],
        ladders=classes.ladders,
        top=top,
        demand_on=demand_on,
        share=share,
        penalty=classes.penalty,
        slowdown=classes.slowdown,
        stated=classes.stated,
        **classes.surfaces._asdict(),
        node_kind=cluster.node_kind.copy(),
        node_type=kind_type[cluster.node_kind],
    )


def _shares(cluster: Cluster) -> Floats:
    """What goes with one GPU of each kind of node in proportion, rounded down to what can be handed out exactly."""
    each = np.array([[amount / max(kind.gpus, 1) for amount in kind.amounts] for kind in cluster.kinds])
    rounded: Floats = np.floor(each * QUANTUM) / QUANTUM
    return rounded


def _kind_types(cluster: Cluster) -> Ints:
    index = {name: i for i, name in enumerate(cluster.gpu_types)}
    return np.array([index.get(kind.gpu_type, -1) if kind.gpus else -1 for kind in cluster.kinds], dtype=np.int64)


def _shapes(job_class: Ints, size: Floats, types: Ints) -> tuple[Ints, Ints]:
    """Number the shapes of jobs: each job's shape, and the first job of each shape."""
    code = job_class
    for column in (size, types):
        values, number = np.unique(column, return_inverse=True)
        code = code * len(values) + number.reshape(-1)
    _, first, shape = np.unique(code, return_index=True, return_inverse=True)
    return shape.reshape(-1), first


def bulk_ranks(need: Ints, demand: Floats) -> Ints:
    """Rank by thousandths of GPUs, then CPUs, then memory: the larger, the higher."""
    _, rank = np.unique(np.column_stack([need, demand[:, :2]]), axis=0, return_inverse=True)
    return rank.reshape(-1)


def _top(gpus: Ints, job_class: Ints, ladders: Floats, cluster: Cluster) -> Ints:
    """The highest step of the ladder that an empty node of each kind can grant, for jobs of these sizes and classes."""
    kinds = len(cluster.kinds)
    levels = np.zeros((len(gpus), kinds), dtype=np.int64)
    for row, (one, count) in enumerate(zip(job_class, gpus, strict=True)):
        for k, kind in enumerate(cluster.kinds):
            if kind.gpus == 0:
                continue
            room = np.array(kind.amounts[:DEMANDS]) / min(count, kind.gpus)
            table = ladders[one * kinds + k]
            fit = np.flatnonzero(np.all(table[:, :DEMANDS] <= room + 1e-9, axis=1))
            levels[row, k] = fit[-1] if len(fit) else 0
    return levels


def _by_type(speed: Floats, kind_type: Ints, types: Ints, count: int) -> Floats:
    """The best speed of each job on each GPU type that it may use; 0 on others."""
    best = np.zeros((len(speed), count))
    for k, t in enumerate(kind_type):
        if t >= 0:
            best[:, t] = np.where(types >> t & 1, np.maximum(best[:, t], speed[:, k]), best[:, t])
    return best


def _type_kind(speed: Floats, kind_type: Ints, count: int) -> Ints:
    found = np.zeros((len(speed), count), dtype=np.int64)
    for t in range(count):
        kinds = np.flatnonzero(kind_type == t)
        found[:, t] = kinds[speed[:, kinds].argmax(axis=1)]
    return found


def _positive(speed: Floats) -> Floats:
    """A job that may use no GPU type of the cluster never runs; that its time left is finite keeps orders simple."""
    return np.where(speed > 0, speed, 1.0)


def _best_kind(speed: Floats, kind_type: Ints, types: Ints) -> Ints:
    """The kind of node on which each job is fastest."""
    usable = np.stack([(t >= 0) & (types >> max(t, 0) & 1) for t in kind_type], axis=1)
    best: Ints = np.where(usable, speed, -1.0).argmax(axis=1)
    return best
