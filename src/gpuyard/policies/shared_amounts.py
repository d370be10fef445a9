"""What goes with a GPU is divided among those who share it: in proportion, or so that all gain most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from math import floor, nan
from typing import Any

from gpuyard.core.cluster import RESOURCES, NodeKind
from gpuyard.core.grants import WHOLE
from gpuyard.core.workload import Job
from gpuyard.policies.allocate.tune import Tune
from gpuyard.policies.classes import QUANTUM
from gpuyard.policies.facts import Facts
from gpuyard.policies.snapshot import Snapshot, moment_of
from gpuyard.profiles import Zoo

Amounts = tuple[float, ...]
"""Beside one GPU, in the order of RESOURCES."""

NOBODY_MOVES_S = 1e12


def proportional_amounts(kind: NodeKind, jobs: Mapping[Any, Job], gpus: Mapping[Any, int]) -> dict[Any, Amounts]:
    """Each task's equal part of the share of its GPU; `gpus` says on which of the node's GPUs each is."""
    shared_by = Counter(gpus.values())
    return {name: _part(kind, shared_by[gpus[name]]) for name in jobs}


def _part(kind: NodeKind, tasks: int) -> Amounts:
    """Rounded down to what can be handed out exactly."""
    return tuple(floor(amount / kind.gpus / tasks * QUANTUM) / QUANTUM for amount in kind.amounts)


class TunedAmounts:
    """What `tune` gives on a node to slices of GPUs as large as each task's equal part of its GPU."""

    def __init__(self, tune: Tune, zoo: Zoo) -> None:
        self._tune, self._zoo = tune, zoo
        self._found: dict[object, tuple[Amounts, ...]] = {}

    def __call__(self, kind: NodeKind, jobs: Mapping[Any, Job], gpus: Mapping[Any, int]) -> dict[Any, Amounts]:
        """Equal tasks on equal nodes are thought about once."""
        alike = [
            replace(job, job_id=number, arrival_s=0.0, iterations=1e6, duration_s=nan, tenant="", priority=0)
            for number, job in enumerate(jobs.values())
        ]
        there = tuple(gpus[name] for name in jobs)
        key = (kind, there, repr(alike))
        if key not in self._found:
            self._found[key] = self._divided(kind, alike, there)
        return dict(zip(jobs, self._found[key], strict=True))

    def _divided(self, kind: NodeKind, jobs: list[Job], gpus: tuple[int, ...]) -> tuple[Amounts, ...]:
        """Ask about a node where all are at their places with their parts; whoever is to keep these is not named."""
        shared_by = Counter(gpus)
        parts = [_part(kind, shared_by[gpu]) for gpu in gpus]
        facts = Facts(0.0, move_cost_s=NOBODY_MOVES_S)
        facts.add_node("node", kind)
        for job, gpu, part in zip(jobs, gpus, parts, strict=True):
            facts.add_job(job)
            beside: dict[str, Any] = dict(zip(RESOURCES, part, strict=True))
            facts.hold(job.job_id, [("node", gpu)], share=(WHOLE // shared_by[gpu]) / WHOLE, **beside)
        snapshot = Snapshot.of(facts, self._zoo)
        plan = self._tune.plan(snapshot, moment_of(snapshot).active)
        for row, number in enumerate(plan.jobs):
            parts[snapshot.job_id_of(int(number))] = tuple(plan.amounts[row].tolist())
        return tuple(parts)
