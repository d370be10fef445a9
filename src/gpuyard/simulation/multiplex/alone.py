"""How fast a task is with what it holds if nobody shares its GPU: the performance model's answer."""

from __future__ import annotations

import numpy as np

from gpuyard.core.books import held_gpus
from gpuyard.core.kernel import box
from gpuyard.policies.performance import plan_speeds
from gpuyard.policies.plan import Plan
from gpuyard.policies.tables import Tables

_NOBODY = np.zeros(0, dtype=np.int64)


class AloneSpeeds:
    """Asks the performance model, once for each kind of task and amounts."""

    def __init__(self, tables: Tables) -> None:
        self._tables, self._boxed = tables, box(tables)
        self._found: dict[tuple[float, ...], float] = {}

    def of(self, job: int) -> float:
        """The relative speed of a task with what it holds now."""
        jobs, books, _ = self._tables
        gpu_ids = held_gpus(books, job)
        amounts = books.line_amounts[books.first_line[job]]
        kind = int(jobs.node_kind[books.gpu_node[gpu_ids[0]]])
        key = (int(jobs.like[job]), kind, *amounts.tolist())
        if key not in self._found:
            first = np.array([0, len(gpu_ids)], dtype=np.int64)
            plan = Plan(
                np.array([job], dtype=np.int64), first, gpu_ids.copy(), amounts[None, :].copy(), _NOBODY,
                np.zeros(0, dtype=np.int8),
            )  # fmt: skip
            self._found[key] = float(plan_speeds(self._boxed, plan)[0])
        return self._found[key]
