"""What a program did on its emulated GPUs: each process writes its part, the launcher puts them together."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuyard.emulation.device import Gpu
from gpuyard.emulation.step_times import StepTimes, write_step_times
from gpuyard.profiles.costs import operation_costs

STEP_FILE = ".steps"
"""How the files with step times end."""


@dataclass
class ProcessReport:
    """What one process adds to the report."""

    started: float
    """When it began, by its clock."""
    started_here: float = field(default_factory=time.monotonic)
    steps: int = 0
    step_times: StepTimes = field(default_factory=StepTimes)
    profiled: dict[str, float] = field(default_factory=dict)
    """Seconds of passes whose durations came from a profile, by its name."""
    profile_error: float = 0.0
    unprofiled: str = ""
    """The first model for which there was no profile."""
    one_wait_per_pass: str = ""
    """The model whose passes were too short to be emulated operation by operation."""
    branched_at: str = ""
    notices: list[str] = field(default_factory=list)

    def used_profile(self, profile: str, seconds: float, expected_error: float) -> None:
        """Note that a pass took what a profile says."""
        self.profiled[profile] = self.profiled.get(profile, 0.0) + seconds
        self.profile_error = max(self.profile_error, expected_error)

    def duration_models(self, gpus: Sequence[Gpu]) -> tuple[dict[str, float], float | None]:
        """Return device seconds by where their durations came from, and the error to expect of the largest part."""
        models = dict(self.profiled)
        costs = operation_costs(gpus[0].kind)
        rest = sum(gpu.busy_seconds() for gpu in gpus) - sum(models.values())
        by_profile = sum(models.values()) > rest
        models[costs.origin] = max(0.0, rest)
        if self.one_wait_per_pass:
            models = {f"{model}, one wait per pass": seconds for model, seconds in models.items()}
        return models, self.profile_error if by_profile else costs.expected_error

    def describe(self, gpus: Sequence[Gpu], visible: Sequence[int], now: float) -> dict[str, Any]:
        """Say what this process has done so far, on which of the machine's GPUs."""
        models, error = self.duration_models(gpus)
        return {
            "pid": os.getpid(),
            "rank": _rank(os.environ.get("RANK", "")),
            "command": shlex.join(sys.orig_argv),
            "gpus": [gpu.index for gpu in gpus],
            "gpu_ids": [visible[gpu.index] for gpu in gpus],
            "gpu_kinds": [gpu.kind.key for gpu in gpus],
            "started_here": self.started_here,
            "wall_seconds": time.monotonic() - self.started_here,
            "emulated_seconds": now - self.started,
            "device_seconds": sum(gpu.busy_seconds() for gpu in gpus),
            "waited_seconds": sum(gpu.waited for gpu in gpus),
            "peak_memory_bytes": max(gpu.memory.peak for gpu in gpus),
            "peak_reserved_bytes": max(gpu.memory.reserved_peak for gpu in gpus),
            "kernels": sum(gpu.timeline.launches for gpu in gpus),
            "steps": self.steps,
            "duration_models": models,
            "expected_error": error,
            "one_wait_per_pass": self.one_wait_per_pass or None,
            "branched_on_made_up_value_at": self.branched_at or None,
            "ended_by": uncaught_error(),
            "notices": self.notices,
        }

    def write(self, folder: str, gpus: Sequence[Gpu], visible: Sequence[int], now: float) -> None:
        """Leave this process's part in a folder, in the place of an earlier one."""
        self.step_times.settle()
        target = Path(folder) / f"{os.getpid()}.json"
        unfinished = target.with_suffix(".part")
        write_step_times(self.step_times.times, unfinished, self.started)
        unfinished.replace(target.with_suffix(STEP_FILE))
        unfinished.write_text(json.dumps(self.describe(gpus, visible, now)), encoding="utf-8")
        unfinished.replace(target)


def _rank(text: str) -> int:
    """Which process of a distributed program this is, by what torchrun and its like say."""
    return int(text) if text.isdigit() else 0


def uncaught_error() -> str | None:
    """Name the error that ends this program; those that a prompt has shown end nothing."""
    error: type[BaseException] | None = None if hasattr(sys, "ps1") else getattr(sys, "last_type", None)
    return None if error is None else error.__name__


def combine(folder: Path, gpus: str, kinds: list[str], wall_seconds: float) -> dict[str, Any]:
    """Put the parts of all processes together."""
    parts = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    parts.sort(key=lambda part: (part["rank"], part["started_here"]))
    models: dict[str, float] = {}
    for part in parts:
        for model, seconds in part["duration_models"].items():
            models[model] = models.get(model, 0.0) + seconds
    errors = [part["expected_error"] for part in parts if part["expected_error"] is not None]
    return {
        "gpu": kinds[0],
        "gpus": gpus,
        "wall_seconds": wall_seconds,
        "emulated_seconds": max((part["emulated_seconds"] for part in parts), default=0.0),
        "device_seconds": sum(part["device_seconds"] for part in parts),
        "waited_seconds": sum(part["waited_seconds"] for part in parts),
        "peak_memory_bytes": max((part["peak_memory_bytes"] for part in parts), default=0),
        "peak_reserved_bytes": max((part["peak_reserved_bytes"] for part in parts), default=0),
        "steps": max((part["steps"] for part in parts), default=0),
        "kernels": sum(part["kernels"] for part in parts),
        "duration_model": max(models, key=lambda model: models[model]) if models else "none",
        "duration_models": models,
        "expected_error": max(errors, default=None),
        "processes": parts,
    }
