"""What a program did on its emulated GPUs: each process writes its part, the launcher puts them together."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuyard.emulation.device import Gpu
from gpuyard.profiles.operations import operation_costs

if TYPE_CHECKING:
    from gpuyard.emulation.session import Session


@dataclass
class ProcessReport:
    """What one process adds to the report."""

    started: float
    """When it began, by its clock."""
    steps: int = 0
    profiled: dict[str, float] = field(default_factory=dict)
    """Seconds of passes whose durations came from a profile, by its name."""
    profile_error: float = 0.0
    unprofiled: str = ""
    """The first model for which there was no profile."""
    one_wait_per_pass: str = ""
    """The model whose passes were too short to be emulated operation by operation."""
    branched_at: str = ""
    notices: list[str] = field(default_factory=list)

    def anchored(self, profile: str, seconds: float, expected_error: float) -> None:
        """Note that a pass took what a profile says."""
        self.profiled[profile] = self.profiled.get(profile, 0.0) + seconds
        self.profile_error = max(self.profile_error, expected_error)

    def duration_models(self, gpus: list[Gpu]) -> tuple[dict[str, float], float | None]:
        """Return device seconds by where their durations came from, and the error to expect of the largest part."""
        models = dict(self.profiled)
        costs = operation_costs(gpus[0].kind)
        rest = sum(gpu.busy_seconds() for gpu in gpus) - sum(models.values())
        by_profile = sum(models.values()) > rest
        models[costs.origin] = max(0.0, rest)
        if self.one_wait_per_pass:
            models = {f"{model}, one wait per pass": seconds for model, seconds in models.items()}
        return models, self.profile_error if by_profile else costs.expected_error

    def write(self, session: Session) -> None:
        """Leave this process's part in the folder that the launcher named, if it did and a GPU was used."""
        gpus = session.used()
        if not session.settings.report or not gpus:
            return
        models, error = self.duration_models(gpus)
        part = {
            "pid": os.getpid(),
            "gpus": [gpu.index for gpu in gpus],
            "emulated_seconds": session.clock.now() - self.started,
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
            "notices": self.notices,
        }
        target = Path(session.settings.report) / f"{os.getpid()}.json"
        unfinished = target.with_suffix(".part")
        unfinished.write_text(json.dumps(part), encoding="utf-8")
        unfinished.replace(target)


def combine(folder: Path, gpus: str, kinds: list[str], wall_seconds: float) -> dict[str, Any]:
    """Put the parts of all processes together."""
    parts = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
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
