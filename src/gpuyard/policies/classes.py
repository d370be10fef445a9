"""Jobs that are alike in model, slice and stated demand share one set of tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.books import DEMANDS
from gpuyard.core.cluster import Cluster
from gpuyard.core.grants import WHOLE
from gpuyard.core.workload import Workload
from gpuyard.profiles import GENERIC, STEP, ModelProfile, Surface, Zoo, demand_ladder, ladder, stacked

QUANTUM = float(STEP)
"""Amounts are multiples of 1/QUANTUM, so that taking and returning them is exact."""

SLICE_QUANTUM = QUANTUM * QUANTUM
"""Those of slices are multiples of 1/SLICE_QUANTUM: for a hundredth of a GPU, 1/QUANTUM would be a good part of all."""


class JobClass(NamedTuple):
    """What jobs of one class have in common."""

    profile: ModelProfile
    part: float
    """Of one GPU; 1.0 for whole GPUs."""
    stated: Floats
    """CPUs, memory GB and storage MB/s per GPU that the jobs state; NaN where they state nothing."""

    @property
    def speaks_for_itself(self) -> bool:
        """Whether the jobs' own demand, and no profile, says what they can use."""
        return self.profile.name == GENERIC and not bool(np.isnan(self.stated).all())

    def demand(self, share: Floats) -> Floats:
        """What the jobs state for a whole GPU; what they do not name is at its share."""
        stated: Floats = np.where(np.isnan(self.stated), share[:DEMANDS], self.stated / self.part)
        return stated

    @property
    def needs(self) -> Floats:
        """What the jobs state for a whole GPU, and 0 of what they do not name: of that they can lack nothing."""
        needs: Floats = np.nan_to_num(self.stated / self.part)
        return needs

    def speed(self, amounts: Floats, gpu_type: str) -> float:
        """The relative speed with these amounts beside each GPU, or each part of one: half a GPU has half the speed."""
        cpus, memory, storage = (float(amount) / self.part for amount in amounts)
        if not self.speaks_for_itself:
            return self.part * self.profile.speed(cpus, memory, storage, gpu_type)
        got = zip((cpus, memory, storage), self.needs, strict=True)
        slowest = min((have / want for have, want in got if have < want), default=1.0)
        return self.part * slowest * self.profile.factor(gpu_type)


class Classes(NamedTuple):
    """Tables over classes, and over rows: class * kinds + kind of node."""

    members: tuple[JobClass, ...]
    iteration_s: Floats
    penalty: Floats
    ladders: Floats
    slowdown: Floats
    stated: Floats
    surfaces: Surface


def job_classes(
    workload: Workload, part: Ints, gpus: Ints, cluster: Cluster, zoo: Zoo, share: Floats
) -> tuple[Classes, Ints]:
    """Sort jobs into classes and look each class up on every kind of node."""
    per_gpu = np.stack([workload.cpus, workload.memory_gb, workload.storage_mbps], axis=1) / gpus[:, None]
    keys, job_class = _keys(workload, part, per_gpu)
    members = tuple(
        JobClass(zoo.profile(workload.models[int(model)]), int(thousandths) / WHOLE, np.array(stated))
        for model, thousandths, *stated in keys
    )
    pairs = [(one, share[k], kind.gpu_type) for one in members for k, kind in enumerate(cluster.kinds)]
    ladders = [_ladder(one, amounts, gpu_type) for one, amounts, gpu_type in pairs]
    steps = np.full((len(ladders), max((len(table) for table in ladders), default=1), DEMANDS + 1), np.nan)
    for row, table in enumerate(ladders):
        steps[row, : len(table)] = table
    classes = Classes(
        members=members,
        iteration_s=np.array([one.profile.iteration_s for one in members]),
        penalty=np.array([one.profile.spread_penalty for one in members]),
        ladders=steps,
        slowdown=_slowdowns(members, [kind.gpu_type for kind in cluster.kinds]),
        stated=np.array([_stated(one, gpu_type) for one, _, gpu_type in pairs]).reshape(-1, DEMANDS + 1),
        surfaces=stacked([one.profile.surface(gpu_type) for one, _, gpu_type in pairs]),
    )
    return classes, job_class


def _keys(workload: Workload, part: Ints, per_gpu: Floats) -> tuple[list[list[float]], Ints]:
    """The distinct (model, thousandths, stated amounts…), and which of them each job is."""
    keys = np.column_stack([workload.model.astype(np.float64), part.astype(np.float64), per_gpu])
    if np.isnan(per_gpu).all():  # the usual case, a thousand times faster than the general one
        code = workload.model.astype(np.int64) * (WHOLE + 1) + part
        _, first, job_class = np.unique(code, return_index=True, return_inverse=True)
        rows = keys[first]
    else:
        rows, job_class = np.unique(np.where(np.isnan(keys), -1.0, keys), axis=0, return_inverse=True)
        rows = np.where(rows < 0, np.nan, rows)
    return rows.tolist(), job_class.reshape(-1).astype(np.int64)


def _ladder(one: JobClass, share: Floats, gpu_type: str) -> Floats:
    amounts = (float(share[0]), float(share[1]), float(share[2]))
    if one.speaks_for_itself:
        cpus, memory, storage = one.demand(share).tolist()
        table = demand_ladder(cpus, memory, storage, amounts)
        table[:, DEMANDS] *= one.profile.factor(gpu_type)
    else:
        table = ladder(one.profile, amounts, gpu_type)
    return table if one.part == 1.0 else _sliced(table, one, gpu_type)


def _sliced(table: Floats, one: JobClass, gpu_type: str) -> Floats:
    """The steps of a part of a GPU: as large a part of the amounts, rounded down to what can be handed out exactly."""
    amounts = np.floor(table[:, :DEMANDS] * one.part * SLICE_QUANTUM) / SLICE_QUANTUM
    return np.column_stack([amounts, [one.speed(row, gpu_type) for row in amounts]])


def _slowdowns(members: tuple[JobClass, ...], gpu_types: list[str]) -> Floats:
    """Row x class: how much longer jobs of the one take beside one of the other; empty if no profile speaks of it."""
    if not any(one.profile.slowdown for one in members):
        return np.empty((0, 0))
    profiles = [one.profile for one in members]
    rows = [(one, kind) for one in profiles for kind in gpu_types]
    return np.array([[one.slowdown_beside(other, kind) for other in profiles] for one, kind in rows])


def _stated(one: JobClass, gpu_type: str) -> Floats:
    """What `stated` of Jobs holds in one row."""
    if not one.speaks_for_itself:
        return np.full(DEMANDS + 1, np.nan)
    return np.append(one.needs, one.part * one.profile.factor(gpu_type))
