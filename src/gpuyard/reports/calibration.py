"""What starts and checkpoints cost in a run with real processes, as options of the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from gpuyard.core.errors import InputError
from gpuyard.results import Run

FAILED = "failed"
NEEDS = "Only 'gpuyard run' starts processes"


@dataclass(frozen=True)
class Cost:
    """What one kind of event took, time after time, in seconds of the run."""

    option: str
    samples: list[float] = field(default_factory=list)

    @property
    def mean_s(self) -> float | None:
        """What the simulator takes for it; None if it never happened."""
        return max(float(np.mean(self.samples)), 0.0) if self.samples else None

    def as_row(self) -> dict[str, Any]:
        """Its mean and spread."""
        low, high = np.percentile(self.samples, (10, 90)).tolist() if self.samples else (None, None)
        return {"option": self.option, "mean_s": self.mean_s, "p10_s": low, "p90_s": high, "samples": len(self.samples)}


@dataclass(frozen=True)
class Calibration:
    """The costs of one or several runs."""

    costs: tuple[Cost, ...]
    checkpoint_every_s: float

    def options(self) -> dict[str, float]:
        """Options of the simulator, by their names there; a cost that was never seen has none."""
        found = {cost.option: cost.mean_s for cost in self.costs if cost.mean_s is not None}
        return found | ({"checkpoint-every": self.checkpoint_every_s} if "checkpoint-cost" in found else {})

    def words(self) -> str:
        """The same as a command line has them."""
        return " ".join(f"--{name} {value:.3f}s" for name, value in self.options().items())


def calibrate(runs: Sequence[Run]) -> Calibration:
    """Measure what the simulator has options for; InputError for a run that has nothing to measure."""
    costs = {name: Cost(name) for name in ("start-cost", "restart-cost", "migration-cost", "checkpoint-cost")}
    for run in runs:
        _check(run)
        for row in _attempts(run):
            _add(row, costs, float(run.info.get("speed") or 1.0))
    every = {float((run.info.get("options") or {}).get("checkpoint_every_s") or 1800.0) for run in runs}
    if len(every) > 1:
        raise InputError("the runs saved checkpoints at different intervals", field="checkpoint_every", value=every)
    return Calibration(tuple(costs.values()), every.pop())


def _check(run: Run) -> None:
    if "attempts" not in run:
        raise InputError("has no attempts to measure", file=run.path, hint=NEEDS)
    worked = run["attempts"].filter(pl.col("working_s").is_not_null())
    if not worked.height:
        raise InputError("has no attempt that came to its first step", file=run.path, field="working_s")
    if (worked["ended"] == FAILED).all():
        raise InputError("has only attempts that ended by a fault", file=run.path, field="ended", value=FAILED)


def _attempts(run: Run) -> list[dict[str, Any]]:
    """All attempts with when their job arrived and how the one before ended."""
    arrival = dict(run.jobs.select("job_id", "arrival_s").iter_rows())
    before: dict[int | str, str] = {}
    found = []
    for row in run["attempts"].sort("job_id", "attempt").iter_rows(named=True):
        found.append(row | {"arrival_s": arrival[row["job_id"]], "after": before.get(row["job_id"])})
        before[row["job_id"]] = row["ended"]
    return found


def _add(row: dict[str, Any], costs: dict[str, Cost], speed: float) -> None:
    if row["working_s"] is None or row["ended"] == FAILED:
        return  # what it took is not known, or lost by other things than starts
    name = {None: "start-cost", "moved": "migration-cost"}.get(row["after"], "restart-cost")
    save_s = row["save_s"] * speed / max(row["saves"], 1)
    on_the_way = max(row["saves"] - 1, 0)  # the last one is a part of leaving
    costs[name].samples.append(_held_s(row) - row["steps_s"] - save_s * on_the_way)
    if row["saves"]:
        costs["checkpoint-cost"].samples.append(save_s)


def _held_s(row: dict[str, Any]) -> float:
    """How long a simulator lets this attempt hold its GPUs: decisions take effect late at its beginning and its end."""
    if row["stop_asked_s"] is None:
        return float(row["end_s"] - max(row["due_s"], row["arrival_s"]))
    return float(row["stop_asked_s"] - row["asked_s"])
