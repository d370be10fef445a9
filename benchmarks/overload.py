"""Three times the load that the cluster can bear, under every shipped order, against the floor in the same process."""

from __future__ import annotations

from benchmarks.limits import Figure
from benchmarks.million import LOAD, Point, measure, tell
from gpuyard.policies.registry import ORDERS

OVERLOAD = 2000.0
"""Jobs an hour: more than three times what the cluster can do, so that the queue grows for as long as jobs arrive."""
JOBS = 200_000
POLICIES = tuple(f"{order}+{allocation}" for order in ORDERS.names for allocation in ("proportional", "tune"))
LIMIT = 50.0
"""Time over floor, at most, whatever the order."""

assert OVERLOAD > 3 * LOAD


def points(jobs: int = JOBS) -> list[Point]:
    """Measure every order with both allocations."""
    found = []
    for policy in POLICIES:
        found.append(measure(policy, jobs, OVERLOAD, repeats=1))
        tell(found[-1])
    return found


def figures(measured: list[Point]) -> list[Figure]:
    """Turn points into figures with a limit."""
    return [
        Figure(
            f"{point.policy}, {point.jobs:,} jobs, overloaded, {point.most_unfinished:,} at once: time over floor",
            point.ratio,
            "x",
            most=LIMIT,
        )
        for point in measured
    ]
