"""Who of the processes with work queued on one GPU runs, and how fast. Pure functions of what they claim."""

from __future__ import annotations

from gpuyard.policies.naming import look_up, option_values, parse
from gpuyard.policies.timeshare.exclusive import Exclusive
from gpuyard.policies.timeshare.fifo import FirstComeFirstServed
from gpuyard.policies.timeshare.interface import Claim, TimeSharing
from gpuyard.policies.timeshare.partition import PromisedShares
from gpuyard.policies.timeshare.priority import Priority
from gpuyard.policies.timeshare.spatial import Spatial
from gpuyard.policies.timeshare.time_slice import TimeSlice

__all__ = [
    "TIME_SHARINGS",
    "Claim",
    "Exclusive",
    "FirstComeFirstServed",
    "Priority",
    "PromisedShares",
    "Spatial",
    "TimeSharing",
    "TimeSlice",
    "time_sharing",
]

TIME_SHARINGS: dict[str, type[TimeSharing]] = {
    each.name: each for each in (TimeSlice, FirstComeFirstServed, Priority, Spatial, PromisedShares, Exclusive)
}


def time_sharing(text: str) -> TimeSharing:
    """Find a shipped policy by name and options, as in `time-slice:quantum=2ms` or `spatial:capacity=1.2`.

    The registry finds them too, and those of others besides; this is for processes that need to import little.
    """
    name = parse(text, "sharing")
    chosen = look_up(name.name, TIME_SHARINGS, "a sharing policy", "sharing")
    return chosen(**option_values(name, chosen, "sharing"))
