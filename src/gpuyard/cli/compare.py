"""`gpuyard compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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

    For a simulated run and one with real processes it also states the gap, and what it comes from.
    """
    from gpuyard.reports.comparison import compare_runs, mismatches, side_by_side
    from gpuyard.reports.gap import gaps_to
    from gpuyard.reports.headlines import headline
    from gpuyard.reports.pairing import unpaired
    from gpuyard.results import load_run

    loaded = [load_run(folder) for folder in runs]
    rows = compare_runs(loaded)
    have_jobs = all("jobs" in run for run in loaded)
    gaps = gaps_to(loaded[0], loaded[1:])
    untold = [warning for gap in gaps if gap for warning in gap.warnings()]
    for warning in [*(unpaired(loaded) if have_jobs else []), *mismatches(loaded), *untold]:
        say(f"warning: {warning}")
    if format == Format.table:
        emit(side_by_side(loaded), format)
        for gap in gaps:
            if gap:
                print()
                emit(gap.lines(), format)
        say(headline(loaded))
    else:
        told: list[dict[str, Any]] = [{}, *(gap.as_row() if gap else {} for gap in gaps)]
        emit([row | more for row, more in zip(rows, told, strict=True)], format)
