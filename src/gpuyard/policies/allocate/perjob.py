"""A base for allocations of your own: say what one GPU of a job should get, and inherit the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.books import DEMANDS
from gpuyard.policies.classes import SLICE_QUANTUM
from gpuyard.policies.own_code import own_answer
from gpuyard.policies.placement.interface import Placement
from gpuyard.policies.plan import Plan
from gpuyard.policies.snapshot import Snapshot, moment_of


class PerJob(ABC):
    """Decides for each job alone, by its profile. A job whose amounts are not free waits."""

    placement: str | Placement = "best-fit"

    @abstractmethod
    def amounts(self, ladder: Floats, share: Floats) -> Sequence[float] | Floats:
        """Return (CPUs, memory GB, storage MB/s) for each GPU of a job.

        `ladder` holds the allocations worth having, one a row: (CPUs, memory GB, storage MB/s, speed), cheapest first.
        The first is as fast as `share`, the GPU's proportional part of its node; the last is as fast as the job can be
        on empty nodes. Amounts beyond the last may never be free.
        """

    def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
        """Admit in order those whose amounts are free somewhere."""
        from gpuyard.policies.allocate.division import by_demand
        from gpuyard.policies.allocate.placing import find_places

        required = self._required(snapshot)
        placed = find_places(snapshot, order, self.placement, required=required)
        amounts = by_demand(moment_of(snapshot).boxed, placed, required)
        return Plan(placed.jobs, placed.first, placed.gpu_ids, amounts, placed.stopped, placed.reasons)

    def _required(self, snapshot: Snapshot) -> Floats:
        """For each job and kind of node what each GPU should get; asked once for jobs that are alike."""
        jobs, active = moment_of(snapshot).tables.jobs, snapshot.active
        kinds = len(jobs.share)
        alike, which = np.unique(
            np.column_stack([jobs.job_class[active], jobs.top[active]]), axis=0, return_inverse=True
        )
        chosen = [
            self._choose(jobs.ladders[one * kinds + kind, : top[kind] + 1], jobs.share[kind, :DEMANDS])
            for one, *top in alike.tolist()
            for kind in range(kinds)
        ]
        required = np.zeros((len(jobs.job_class), kinds, DEMANDS))
        required[active] = np.array(chosen).reshape(-1, kinds, DEMANDS)[which.reshape(-1)]
        return required

    def _choose(self, table: Floats, share: Floats) -> Floats:
        ladder = table[~np.isnan(table[:, DEMANDS])]
        answer = self.amounts(ladder, share)
        with suppress(TypeError, ValueError):  # what is not even numbers is refused below
            amounts = np.asarray(answer, dtype=np.float64)
            if amounts.shape == (DEMANDS,) and (np.isfinite(amounts) & (amounts >= 0)).all():
                chosen: Floats = np.floor(amounts * SLICE_QUANTUM) / SLICE_QUANTUM
                return chosen
        rule = f"its amounts must be {DEMANDS} finite numbers, 0 or more, not {answer!r}"
        raise own_answer(rule, type(self).__name__, self)
