"""Launches on a shared GPU in virtual time, against the floor: two events a launch through a heap, side by side."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

from benchmarks.limits import Figure
from benchmarks.measure import best_in_turn, heap_floor, in_own_process

LAUNCHES = 1_000_000
POLICIES = {"priority:sync=8": 0.4, "shares": 30.0}
"""Who may launch, and the time over floor at most: one whose words never change, one that rewrites them every 2 ms."""
LEAST_PER_S = 1_000_000
"""Launches a CPU second, where words never change."""


def run() -> list[Figure]:
    """Measure in processes of their own."""
    found = []
    for policy, limit in POLICIES.items():
        measured = in_own_process("sharing_speed", policy, LAUNCHES)
        name = f"sharing: {LAUNCHES:,} launches under {policy}"
        per_s = measured["launches"] / measured["sharing_s"]
        least = LEAST_PER_S if policy.startswith("priority") else None
        found += [
            Figure(f"{name}: time over floor", measured["sharing_s"] / measured["floor_s"], "x", most=limit),
            Figure(f"{name}: launches a CPU second", per_s, least=least, portable=False),
        ]
    return found


def _one(policy: str, launches: int) -> dict[str, Any]:
    from gpuyard.core.sharing import KernelSequence, SharedJob, SharingExperiment
    from gpuyard.simulation.device.engine import share
    from gpuyard.simulation.device.rehearsal import rehearse_sharing

    rehearse_sharing()
    background = SharedJob("background", KernelSequence.uniform(200, 0.3e-3))
    urgent = SharedJob("urgent", KernelSequence.uniform(30, 0.1e-3), priority=1, thinks_s=(0.02,))
    per_second = 4450  # of this pair
    experiment = SharingExperiment((background, urgent), launches / per_second, policy)
    (gpu,) = share(experiment)
    starts = [number * 0.3e-3 for number in range(gpu.launches)]
    floor = partial(heap_floor, starts, [0.3e-3] * gpu.launches)
    best = best_in_turn(3, floor=floor, sharing=lambda: share(experiment))
    return {f"{name}_s": seconds for name, seconds in best.items()} | {"launches": gpu.launches}


if __name__ == "__main__":
    print(json.dumps(_one(sys.argv[1], int(sys.argv[2]))))
