"""The trends that `gpuyard demo emulate` and examples/emulation/pinning.py show, on the real clock."""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.limits import Figure
from gpuyard.emulation.demo.pinning import step_times


def run() -> list[Figure]:
    """Show them and hold them to what the study found."""
    return [*trends(_demo()), *_copies()]


def _demo() -> dict[str, float]:
    command = [sys.executable, "-m", "gpuyard", "demo", "emulate", "--format", "json"]
    shown = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    return {row["what"]: row["here"] for row in json.loads(shown)}


def trends(here: dict[str, float]) -> list[Figure]:
    """Turn what was shown into figures with limits."""
    light, heavy = (
        here[f"{model}, 6 cores decode: images/s"] / here[f"{model}, 1 core decodes: images/s"]
        for model in ("AlexNet", "ResNet-50")
    )
    waits = [here[f"{model} waits for the disk: % of time"] for model in ("AlexNet", "ResNet-50")]
    alone, *shared = (here[f"ResNet-50, {jobs} on one GPU: images/s of each"] for jobs in (1, 2, 3))
    together = here["CPU- and GPU-bound job, one after the other / together"]
    return [
        Figure("demo: light model, six cores over one", light, "x", least=3.5),
        Figure("demo: gain of the heavy model over that of the light one", heavy / light, "x", most=0.75),
        Figure("demo: waiting for the disk, light model more than heavy", waits[0] - waits[1], "%", least=10),
        Figure("demo: ResNet-50 alone", alone, "images/s", least=192, most=212),
        Figure("demo: one of two over half", 2 * shared[0] / alone, "x", least=0.9, most=1.1),
        Figure("demo: one of three over a third", 3 * shared[1] / alone, "x", least=0.9, most=1.1),
        Figure("demo: unlike jobs, one after the other over together", together, "x", least=1.25, most=1.75),
    ]


def _copies() -> list[Figure]:
    return [
        Figure(f"demo: step with {each.way} copies over expected", each.step_ms / each.expected_ms, "x", most=1.15)
        for each in step_times(steps=60)
    ]
