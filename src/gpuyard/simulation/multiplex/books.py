"""What is written down of each task of a simulated shared cluster: spans, waits, and who shared which GPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from gpuyard.core.cluster import RESOURCES
from gpuyard.core.workload import Workload
from gpuyard.policies.plan import PLACED
from gpuyard.results import ENDED
from gpuyard.simulation.job_lines import Tally


@dataclass
class SharedRecorder:
    """The timeline, and who was on which GPU, as lists of rows."""

    enabled: bool
    spans: list[tuple[Any, ...]] = field(default_factory=list)
    companies: list[tuple[Any, ...]] = field(default_factory=list)

    def span(self, job: int, start: float, end: float, gpu: int, amounts: list[float], speed: float, how: int) -> None:
        """A task held this from start to end."""
        if self.enabled and end > start:
            self.spans.append((job, start, end, [gpu], *amounts[:3], speed, ENDED[how]))

    def company(self, row: tuple[Any, ...], start: float, end: float) -> None:
        """These were on a GPU from start to end."""
        if end > start:
            self.companies.append((*row, start, end))

    def timeline(self, workload: Workload) -> pl.DataFrame:
        """All spans, in the order in which they ended."""
        names = ("job_id", "start_s", "end_s", "gpu_ids", *RESOURCES[:3], "speed", "ended")
        types = [None, pl.Float64, pl.Float64, pl.List(pl.Int32), *[pl.Float64] * 4, pl.String]
        frame = pl.DataFrame(
            {name: pl.Series(name, [row[at] for row in self.spans], dtype=types[at]) for at, name in enumerate(names)}
        )
        ids = pl.Series("job_id", workload.job_id[[row[0] for row in self.spans]])
        return frame.with_columns(ids)

    def shared(self) -> pl.DataFrame:
        """Who was on which GPU when, in the order in which companies parted."""
        types: dict[str, Any] = {
            "gpu": pl.Int32, "tasks": pl.List(pl.String), "batches": pl.List(pl.Int32), "compute": pl.Float64,
            "bandwidth": pl.Float64, "tuning": pl.Boolean, "start_s": pl.Float64, "end_s": pl.Float64,
        }  # fmt: skip
        return pl.DataFrame(self.companies, schema=types, orient="row")


def note_reason(tally: Tally, job: int, reason: int, now: float) -> None:
    """A task waits for this reason from now on, or is placed."""
    old = int(tally.reason[job])
    if old != reason:
        if old != PLACED:
            tally.waits[job, old] += now - tally.reason_since[job]
        tally.reason[job] = reason
        tally.reason_since[job] = now
