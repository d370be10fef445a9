"""A hundred pods train on the eight emulated GPUs of two nodes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from testbed.cluster import until
from testbed.truth import check_at_rest, check_devices
from testbed.yard import HERE, Yard

PODS, STEPS = 100, 40
KINDS = ("gpuyard.io/gpu-memory",) * 8 + ("gpushare/gpu-mem", "gpuyard.io/gpu")
"""Eight of ten share by our name, one by IADeep's, one has a whole GPU."""


def test_a_hundred_pods_train_and_none_is_lost_or_over_memory(yard: Yard) -> None:
    began, names = time.monotonic(), [f"train-{number}" for number in range(PODS)]
    for number, name in enumerate(names):
        kind = KINDS[number % len(KINDS)]
        yard.submit(name, 1 if kind.endswith("gpu") else 3 + number % 7, STEPS, resource=kind)
    most, together = 0, 0

    def ended() -> bool:
        nonlocal most, together
        places = check_devices(yard)
        most, together = max(most, len(places)), max(together, most_processes_of_a_gpu(yard))
        phases = yard.phases()
        assert "Failed" not in phases.values(), [yard.end_of(name) for name in names if phases[name] == "Failed"]
        return set(phases.values()) == {"Succeeded"}

    until(ended, "all pods have ended", seconds=600)
    print(f"{PODS} pods in {time.monotonic() - began:.0f} s; {most} had GPUs at a time, {together} one GPU")
    assert set(yard.phases()) == set(names)
    assert {pod.node for pod in yard.pods().values()} == set(yard.cluster.nodes)
    assert together >= 3
    said = f"trained {STEPS} steps"
    until(lambda: all(said in yard.log(name) for name in names), "all logs are written", seconds=60)
    check_at_rest(yard)


def most_processes_of_a_gpu(yard: Yard) -> int:
    """How many processes share a GPU where most do, by the emulated GPUs; none has more memory than it has."""
    environment = {**os.environ, **HERE, "GPUYARD_SHM": str(yard.shm)}
    command = [sys.executable, "-m", "gpuyard", "smi", "--format", "json"]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout
    gpus = [gpu for node in json.loads(shown or "[]") for gpu in node["gpus"]]
    assert not [gpu for gpu in gpus if gpu["memory_used_bytes"] > gpu["memory_total_bytes"]]
    return max((len(gpu["processes"]) for gpu in gpus), default=0)
