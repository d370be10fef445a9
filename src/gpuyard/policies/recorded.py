"""What a recorded duration was measured on, and so how much work it stands for.

A duration holds with the resources recorded beside it (CPUs, memory, storage bandwidth; the proportional share where
nothing is recorded) and on the node that it was recorded on. That is a node with the GPU type that the user names, or
else the kind of node that has most of the GPUs which the job may use: the order in which a cluster is written down does
not matter. A job wider than that node was spread over several, and its duration says so already.
"""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.books import DEMANDS
from gpuyard.core.cluster import Cluster, NodeKind
from gpuyard.core.errors import InputError, nearest
from gpuyard.core.workload import Workload
from gpuyard.policies.classes import Classes, JobClass
from gpuyard.profiles import gpu_key, gpu_kinds


def recorded_speed(
    workload: Workload, cluster: Cluster, classes: Classes, job_class: Ints, types: Ints, share: Floats,
    gpu_type: str | None,
) -> Floats:  # fmt: skip
    """The relative speed at which each job's duration was recorded."""
    if gpu_type is not None:
        gpu_type = _known(gpu_type, cluster)
    masks, mask_of = np.unique(types, return_inverse=True)
    home_of = np.array([_home(cluster, int(mask), gpu_type) for mask in masks], dtype=np.int64)
    homes = home_of[mask_of.reshape(-1)]
    pairs, which = np.unique(np.column_stack([job_class, homes]), axis=0, return_inverse=True)
    speeds = np.array([
        _recorded(classes.members[one], share[k], gpu_type or cluster.kinds[k].gpu_type) for one, k in pairs
    ])  # fmt: skip
    gpus = np.array([kind.gpus for kind in cluster.kinds])[homes]
    return speeds[which.reshape(-1)] * np.where(workload.gpus > gpus, classes.penalty[job_class], 1.0)


def _known(gpu_type: str, cluster: Cluster) -> str:
    """The key of a GPU type that gpuyard knows or the cluster has: of another nobody could say how fast it is."""
    key = gpu_key(gpu_type)
    known = {kind.key for kind in gpu_kinds()} | {gpu_key(name) for name in cluster.gpu_types}
    if key not in known:
        rule = "is neither a GPU type that gpuyard knows nor one of the cluster"
        raise InputError(rule, field="recorded_on", value=gpu_type, hint=nearest(gpu_type, known))
    return key


def _home(cluster: Cluster, mask: int, gpu_type: str | None) -> int:
    """The kind of node with most GPUs among those of these types, and of the named type if there is one."""
    counts = dict.fromkeys(cluster.kinds, 0)
    for group in cluster.groups:
        counts[group.kind] += group.count * group.kind.gpus
    usable = [kind for kind in cluster.kinds if kind.gpus and mask >> cluster.gpu_types.index(kind.gpu_type) & 1]
    named = [kind for kind in usable if gpu_key(kind.gpu_type) == gpu_type]
    best = max(named or usable or cluster.kinds, key=lambda kind: (counts[kind], _text(kind)))
    return cluster.kinds.index(best)


def _text(kind: NodeKind) -> tuple[object, ...]:
    """Decides between kinds with equally many GPUs, whichever is written first."""
    return (kind.gpu_type, kind.gpus, kind.amounts, kind.gpu_memory_gb)


def _recorded(one: JobClass, share: Floats, gpu_type: str) -> float:
    speed = one.speed(one.demand(share) * one.part, gpu_type)
    # Nothing recorded of what the model cannot do without is no record: the share stands in.
    return speed if speed > 0 else one.speed(share[:DEMANDS] * one.part, gpu_type)
