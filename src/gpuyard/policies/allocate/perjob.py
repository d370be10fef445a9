"""A base for allocations of your own: say what one GPU of a job should get, and inherit the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from gpuyard.core.kernel import Floats, Ints
from gpuyard.policies.allocate.admission import seat
from gpuyard.policies.allocate.division import by_wish
from gpuyard.policies.allocate.placement import placement_mode
from gpuyard.policies.jobs import QUANTUM
from gpuyard.policies.snapshot import Plan, Snapshot


class PerJob(ABC):
    """Decides for each job alone, by its profile. A job whose amounts are not free waits."""

    placement = "best-fit"

    @abstractmethod
    def amounts(self, ladder: Floats, share: Floats) -> Sequence[float] | Floats:
        """Return (CPUs, memory GB, storage MB/s) for each GPU of a job.

        `ladder` holds the allocations worth having, one a row: (CPUs, memory GB, storage MB/s, speed), cheapest first.
        The first is as fast as `share`, the GPU's proportional part of its node; the last is as fast as the job can be
        on empty nodes. Amounts beyond the last may never be free.
        """

    def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
        """Admit in order those whose amounts are free somewhere."""
        jobs, active = snapshot.jobs, snapshot.active
        kinds = len(jobs.share)
        alike, which = np.unique(np.column_stack([jobs.sort[active], jobs.top[active]]), axis=0, return_inverse=True)
        chosen = [
            self._choose(jobs.ladders[sort * kinds + kind, : top[kind] + 1], jobs.share[kind, :3])
            for sort, *top in alike.tolist()
            for kind in range(kinds)
        ]
        by_sort = np.array(chosen).reshape(-1, kinds, 4)[which.reshape(-1)]
        needs, speed = np.empty((len(jobs.sort), kinds, 3)), np.empty((len(jobs.sort), kinds))
        needs[active], speed[active] = by_sort[:, :, :3], by_sort[:, :, 3]
        mode = placement_mode(self.placement)
        seats = seat(snapshot.boxed, order, snapshot.quotas, mode, needs, False, 0.0)
        granted, speeds = by_wish(snapshot.boxed, seats, needs, speed)
        return Plan(seats.jobs, seats.first, seats.gpu_ids, granted, speeds, seats.stopped, seats.reasons)

    def _choose(self, table: Floats, share: Floats) -> Floats:
        ladder = table[~np.isnan(table[:, 3])]
        amounts = np.floor(np.asarray(self.amounts(ladder, share), dtype=np.float64) * QUANTUM) / QUANTUM
        useful = ladder[np.all(ladder[:, :3] <= amounts, axis=1)]
        # Below the lowest step nothing was promised: speed falls with the scarcest amount.
        needed = ladder[0, :3] > 0
        scarce = np.min(amounts[needed] / ladder[0, :3][needed], initial=1.0)
        speed = useful[-1, 3] if len(useful) else ladder[0, 3] * max(scarce, 1e-9)
        return np.append(amounts, speed)
