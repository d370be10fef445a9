"""What is said first about runs, whatever their kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuyard.reports import findings, programs, serving, sharing
from gpuyard.results import Run

HEADLINES: dict[str, Callable[[Sequence[Run]], str]] = {
    "jobs": findings.headline,
    "programs": programs.headline,
    "requests": serving.headline,
    "completions": sharing.headline,
}
"""By the table that figures are of."""


def headline(runs: Sequence[Run]) -> str:
    """Say what the runs of the first kind among these show."""
    kind = next(table for table in HEADLINES if any(table in run for run in runs))
    return HEADLINES[kind]([run for run in runs if kind in run])
