"""Who of the processes on one GPU may launch, and how much at once. Pure functions of what they claim."""

from __future__ import annotations

from gpuyard.policies.timeshare.launch.accounts import ShareAccounts
from gpuyard.policies.timeshare.launch.baselines import PipeSwitch, Reef, Shepherd
from gpuyard.policies.timeshare.launch.caps import AUTO, Capping
from gpuyard.policies.timeshare.launch.interface import LEVELS, NO_CAP, Cap, LaunchClaim, Launching, LaunchTerms
from gpuyard.policies.timeshare.launch.least_slack import LeastSlack
from gpuyard.policies.timeshare.launch.strict_priority import StrictPriority
from gpuyard.policies.timeshare.launch.sync_interval import INTERVALS, best_interval
from gpuyard.policies.timeshare.launch.unrestricted import Unrestricted
from gpuyard.policies.timeshare.launch.weighted_shares import WeightedShares

__all__ = [
    "AUTO",
    "INTERVALS",
    "LAUNCH_POLICIES",
    "LEVELS",
    "NO_CAP",
    "Cap",
    "Capping",
    "LaunchClaim",
    "LaunchTerms",
    "Launching",
    "LeastSlack",
    "PipeSwitch",
    "Reef",
    "ShareAccounts",
    "Shepherd",
    "StrictPriority",
    "Unrestricted",
    "WeightedShares",
    "best_interval",
]

LAUNCH_POLICIES: dict[str, type[Launching]] = {
    each.name: each for each in (Unrestricted, StrictPriority, LeastSlack, WeightedShares, Reef, Shepherd, PipeSwitch)
}
