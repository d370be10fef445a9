"""Gangs of pods on a real Kubernetes of two nodes: one gives way to another, and goes on at its step."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from gpuyard.kube.client.api import ApiError
from gpuyard.kube.resources.training_job import TRAINING_JOBS
from testbed.cluster import until
from testbed.yard import Yard

JOBS = TRAINING_JOBS.folder("default")


def submit(yard: Yard, name: str, gpus: int, steps: int, priority: int = 0) -> None:
    spec = yard.pod(name, 1, [sys.executable, "/programs/gang.py", str(steps)])["spec"]
    del spec["schedulerName"], spec["containers"][0]["resources"]
    spec["terminationGracePeriodSeconds"] = 20
    folder = {"path": str(yard.cluster.folder / "checkpoints"), "type": "DirectoryOrCreate"}
    kept = {"path": "/checkpoints", "volume": {"hostPath": folder}}
    wanted = {"gpus": gpus, "priority": priority, "checkpoints": kept, "template": {"spec": spec}}
    thing = {"apiVersion": "gpuyard.io/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name}, "spec": wanted}
    yard.api.post(JOBS, thing)


def status(yard: Yard, name: str) -> dict[str, Any]:
    found: dict[str, Any] = yard.api.get(f"{JOBS}/{name}").get("status") or {}
    return found


def test_a_gang_gives_way_to_one_of_higher_priority_and_goes_on_at_its_step(yard: Yard) -> None:
    lows = ("low-a", "low-b")
    try:
        for name in lows:
            submit(yard, name, 4, 900)
        until(lambda: all(status(yard, name).get("phase") == "Running" for name in lows), "both gangs run")
        until(lambda: all("begins" in yard.log(f"{name}-1-3") for name in lows), "all processes have met")
        submit(yard, "high", 4, 100, priority=1)
        until(lambda: status(yard, "high").get("phase") == "Succeeded", f"it has run: {status(yard, 'high')}")
        until(lambda: all(status(yard, name).get("phase") == "Succeeded" for name in lows), "the others went on")
        attempts = {name: int(status(yard, name)["attempt"]) for name in lows}
        assert sorted(attempts.values()) == [1, 2]
        (name,) = [name for name, count in attempts.items() if count == 2]
        until(lambda: "ends after 900 steps" in yard.log(f"{name}-2-0"), "its log is written", seconds=30)
        begun = int(yard.log(f"{name}-2-0").split("begins after ")[1].split()[0])
        assert begun > 0
        yard.check_books()
        assert "succeeded" in yard.command("why", name)
        assert Path(yard.cluster.folder / "checkpoints").is_dir()
    finally:
        for name in (*lows, "high"):
            try:
                yard.api.delete(f"{JOBS}/{name}")
            except ApiError:
                continue
