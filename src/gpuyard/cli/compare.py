"""`gpuyard compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpuyard.cli.output import Format, emit, say


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders; ratios are against the first.")],
    format: Annotated[Format, typer.Option(help="How to print the result.")] = Format.table,
) -> None:
    """Put the figures of runs side by side.

    Ratios are against the first run: below 1x is less time. Jobs that finished in both runs are compared one by one,
    where both ran the same jobs. Runs of programs on emulated GPUs are compared by step time, GPU time and memory,
    those of services by latencies, GPUs in use and requests that were not answered in time.
    """
    from gpuyard.reports.comparison import compare_runs, mismatches, side_by_side
    from gpuyard.reports.headlines import headline
    from gpuyard.reports.pairing import unpaired
    from gpuyard.results import load_run

    loaded = [load_run(folder) for folder in runs]
    rows = compare_runs(loaded)
    have_jobs = all("jobs" in run for run in loaded)
    for warning in [*(unpaired(loaded) if have_jobs else []), *mismatches(loaded)]:
        say(f"warning: {warning}")
    if format == Format.table:
        emit(side_by_side(loaded), format)
        say(headline(loaded))
    else:
        emit(rows, format)
