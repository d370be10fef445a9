"""The study's trade-off in two worlds: simulated, and with real processes on the emulated driver behind the gate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.limits import Figure
from gpuyard.core.sharing import SharingExperiment
from gpuyard.emulation.shared_experiment import emulate_sharing
from gpuyard.results import Run
from gpuyard.simulation.device.engine import simulate_sharing
from gpuyard.traces.sharing import read_experiment

EXAMPLE = Path(__file__).parents[1] / "examples" / "sharing" / "trade-off.json"
POLICIES = ("none", "priority:sync=never", "priority:sync=10", "priority:sync=4")
SPEED = 0.25
"""Slowed down, so that a busy machine disturbs less."""
SECONDS = 3.0
TOLERANCE = 0.1


def run() -> list[Figure]:
    """Compare the medians of both jobs under each policy."""
    experiment = read_experiment(EXAMPLE, seed=1, seconds=SECONDS)
    return [figure for policy in POLICIES for figure in _compare(replace(experiment, policy=policy))]


def _compare(experiment: SharingExperiment) -> list[Figure]:
    simulated, emulated = _medians(simulate_sharing(experiment)), _medians(emulate_sharing(experiment, SPEED))
    return [
        Figure(
            f"sharing: {experiment.policy}, {job} job, emulated over simulated",
            emulated[job] / simulated[job],
            "x",
            most=1 + TOLERANCE,
            least=1 - TOLERANCE,
        )
        for job in simulated
    ]


def _medians(run: Run) -> dict[str, float]:
    table = run["processes"]
    return dict(zip(table["job"], table["jct_ms_p50"], strict=True))
