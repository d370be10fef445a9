"""When a decision can next be another one although nothing has happened: its order changes by itself as time passes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.arrays import Floats, Ints
from gpuyard.policies.arrange import seconds_to_crossing
from gpuyard.policies.decide import Decision, Ordered


def order_changes_s(decision: Decision | Ordered, now: float, running: NDArray[np.bool_], since: Floats) -> float:
    """When two jobs can first change places, or a rule that puts jobs first acts otherwise; now if nobody knows.

    `running` says who holds GPUs since the decision, in its order, and `since` from when each works.
    """
    keys, positions = decision.keys, decision.positions
    while_running, while_waiting = keys.running_rate, keys.waiting_rate
    until = decision.holds_until
    if isinstance(while_running, float) and isinstance(while_waiting, float) and while_running == while_waiting:
        return until
    if isinstance(while_running, float) and math.isnan(while_running):
        return now
    waiting_rate = _along(while_waiting, positions)
    rate = np.where(running, _along(while_running, positions), waiting_rate)
    late = running & (since > now)
    priority, key = decision.priority[positions], keys.key[positions]
    crossing = seconds_to_crossing(priority, key, rate)
    if late.any():  # who starts up holds GPUs without working: some keys take that for running, some for waiting
        crossing = min(crossing, seconds_to_crossing(priority, key, np.where(late, waiting_rate, rate)))
    wake = min(until, now + crossing)
    return min(wake, float(since[late].min())) if late.any() else wake


def _along(rate: Floats | float, positions: Ints) -> Floats | float:
    return rate[positions] if isinstance(rate, np.ndarray) else rate
