"""The step that all shipped allocations share: admit jobs in order and find places for them."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.policies.allocate.admission import Placements, admit_and_place
from gpuyard.policies.allocate.counting import TypeSpeeds
from gpuyard.policies.allocate.own_placement import place_by
from gpuyard.policies.naming import look_up
from gpuyard.policies.placement.choosing import CODES, FIRST_FIT
from gpuyard.policies.placement.interface import Placement
from gpuyard.policies.snapshot import Snapshot, moment_of

NOTHING_REQUIRED = np.empty((0, 0, 0))
"""GPUs alone decide whether a job can be placed."""


def share_or_more(snapshot: Snapshot) -> TypeSpeeds:
    """What an allocation makes of jobs that guarantees the share and gives more where it is left."""
    jobs = moment_of(snapshot).tables.jobs
    return TypeSpeeds(jobs.type_speed, jobs.share_type_speed)


def find_places(
    snapshot: Snapshot,
    order: Ints,
    placement: str | Placement,
    *,
    required: Floats = NOTHING_REQUIRED,
    speeds: TypeSpeeds | None = None,
    largest_first: bool = False,
) -> Placements:
    """Admit in order, keep the places of those who run, find places for the others.

    `required` (job x kind x DEMANDS, per GPU) must be free beside the GPUs. Each job goes to the type with room that
    makes it fastest by `speeds`; if not given, by what it reaches with its whole demand.
    """
    moment = moment_of(snapshot)
    whole_demand = moment.tables.jobs.type_speed
    by_type = TypeSpeeds(whole_demand, whole_demand) if speeds is None else speeds

    def admit(jobs: Ints, mode: int, move_cost_s: float) -> Placements:
        limits, now = moment.limits, snapshot.now
        return admit_and_place(moment.boxed, jobs, limits, mode, required, by_type, largest_first, move_cost_s, now)

    if isinstance(placement, Placement):
        # Nobody is moved for the sake of a place that the user's placement may not choose.
        anywhere = partial(admit, mode=FIRST_FIT, move_cost_s=math.inf)
        return place_by(placement, snapshot, order, anywhere, required, by_type.most, largest_first)
    return admit(order, look_up(placement, CODES, "a placement", "placement"), snapshot.move_cost_s)
