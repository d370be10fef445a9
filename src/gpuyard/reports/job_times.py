"""Where the time of each job went, from its arrival to its end, in a run of either world.

The parts of a job add up to its completion time: time is cut at the instants that were written down, and what cannot be
told is its remainder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from gpuyard.core.errors import InputError
from gpuyard.results import Run

PARTS = {
    "waiting": "waiting for its turn",
    "decision_lag": "decisions that take effect late",
    "hand_over": "waiting for others to leave",
    "start_up": "first starts",
    "restarts": "later starts, steps lost",
    "steps": "steps, by what it held",
    "step_time": "steps that took longer",
    "checkpoints": "saving and leaving",
}
"""What a job's time goes to, and how that is put for people."""
REMAINDER = "remainder"


@dataclass
class JobTime:
    """One job's time, cut piece by piece; every instant belongs to one part."""

    at_s: float
    parts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))

    def until(self, when_s: float, part: str) -> float:
        """All up to then that belongs to nothing else belongs to this part; returns how much that is."""
        took = max(when_s - self.at_s, 0.0)
        self.parts[part] += took
        self.at_s = max(self.at_s, when_s)
        return took

    def turn(self, seconds: float, part: str, other: str) -> None:
        """So much of one part was another."""
        self.parts[part] -= seconds
        self.parts[other] += seconds


def job_times(run: Run) -> pl.DataFrame:
    """Return one row for each job that was measured and finished: when it ended, the parts, the remainder."""
    done = run.jobs.filter(pl.col("measured") & pl.col("finish_s").is_not_null())
    rows = _real_rows(run) if "attempts" in run else _simulated_rows(run)
    cut = _cut_real if "attempts" in run else _cut_simulated
    costs = _Costs.of(run)
    found = []
    for job in done.select("job_id", "gpus", "model", "arrival_s", "finish_s").iter_rows(named=True):
        time = JobTime(job["arrival_s"])
        cut(time, rows.get(job["job_id"], []), costs)
        jct_s = job["finish_s"] - job["arrival_s"]
        found.append(job | {"jct_s": jct_s} | time.parts | {REMAINDER: jct_s - sum(time.parts.values())})
    given = {name: run.jobs.schema[name] for name in ("job_id", "gpus", "model")}
    times = ("arrival_s", "finish_s", "jct_s", *PARTS, REMAINDER)
    return pl.DataFrame(found, schema=given | dict.fromkeys(times, pl.Float64()))


@dataclass(frozen=True)
class _Costs:
    """What a run says that starts and checkpoints cost; and how fast its clock went."""

    start_s: float
    restart_s: float
    migration_s: float
    saving: float
    """Part of the time at work that goes to checkpoints."""
    speed: float

    @classmethod
    def of(cls, run: Run) -> _Costs:
        options: Mapping[str, Any] = run.info.get("options") or {}
        names = ("start_cost_s", "restart_cost_s", "migration_cost_s", "checkpoint_cost_s")
        start, restart, migration, checkpoint = (float(options.get(name) or 0.0) for name in names)
        every = float(options.get("checkpoint_every_s") or 1.0)
        return cls(start, restart, migration, checkpoint / (every + checkpoint), float(run.info.get("speed") or 1.0))

    def after(self, ended: str | None) -> float:
        """What a start costs after a span that ended so."""
        return self.start_s if ended is None else self.migration_s if ended == "moved" else self.restart_s


RowsByJob = Mapping[int | str, list[dict[str, Any]]]


def _real_rows(run: Run) -> RowsByJob:
    return _grouped(run["attempts"].sort("attempt").iter_rows(named=True))


def _simulated_rows(run: Run) -> RowsByJob:
    if run.jobs.height and not run.timeline.height:
        rule = "kept no timeline, so nothing tells where its jobs' time went"
        raise InputError(rule, file=run.path, hint="Make it again without --no-timeline")
    return _grouped(run.timeline.sort("start_s").iter_rows(named=True))


def _grouped(rows: Iterable[dict[str, Any]]) -> RowsByJob:
    found: dict[int | str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["job_id"], []).append(row)
    return found


def _cut_real(time: JobTime, attempts: list[dict[str, Any]], costs: _Costs) -> None:
    for row in attempts:
        starting = "restarts" if row is not attempts[0] else "start_up"
        time.until(row["due_s"], "waiting")
        time.until(row["asked_s"], "decision_lag")
        time.until(row["start_s"], "hand_over")
        if row["working_s"] is None:
            time.until(row["end_s"], starting)
            continue
        time.until(row["working_s"], starting)
        worked = time.until(row["end_s"], "steps")
        saving = (row["save_s"] + row["leave_s"]) * costs.speed
        time.turn(saving, "steps", "checkpoints")
        lost = "restarts" if row["ended"] == "failed" else "step_time"
        time.turn(worked - saving - row["steps_s"], "steps", lost)


def _cut_simulated(time: JobTime, spans: list[dict[str, Any]], costs: _Costs) -> None:
    ended, starting_s = None, 0.0
    for row in spans:
        time.until(row["start_s"], "waiting")
        if ended != "resized":
            starting, starting_s = "start_up" if ended is None else "restarts", costs.after(ended)
        held = time.until(row["end_s"], "steps")
        began = min(starting_s, held)
        starting_s -= began
        time.turn(began, "steps", starting)
        time.turn((held - began) * costs.saving, "steps", "checkpoints")
        ended = row["ended"]
