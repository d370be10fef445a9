"""What a policy answers: a plan says who gets what, where, and why the others wait. It contains no physics."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Bytes, Floats, Ints, Small
from gpuyard.core.reasons import WAIT_REASONS

REASONS = tuple(reason.name for reason in WAIT_REASONS)
ROUND, GPUS, FRAGMENTS, RESOURCES, QUOTA, NODES = (reason.code for reason in WAIT_REASONS)
"""Why a job waits, as it stands in `Plan.reasons`."""

PLACED = -1
"""Stands there for a job that does not wait."""

NOTHING_EXPECTED = np.empty(0)


class Plan(NamedTuple):
    """What is to change: who starts, moves or gets other amounts, and who stops. All others keep what they hold.

    Jobs are numbers: positions in the snapshot's tables, as in the order that the plan was made from.
    """

    jobs: Ints
    first: Ints  # where each job's GPUs start in gpu_ids; one more entry: their number
    gpu_ids: Small
    amounts: Floats  # job x RESOURCES, per GPU
    stopped: Ints
    reasons: Bytes  # for each job of the order the plan was made from: PLACED, or why it waits
    expected: Floats = NOTHING_EXPECTED  # the speed that the policy expects of each job, if it says so; worlds decide


class Keys(NamedTuple):
    """Sort keys, lowest first, and how fast each changes per second while its job runs or waits.

    With the rates known, rounds in which the order cannot change are skipped.
    """

    key: Floats
    running_rate: Floats | float = 0.0
    waiting_rate: Floats | float = 0.0
