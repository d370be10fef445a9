"""`gpuyard report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpuyard.cli.output import say


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for report.html and the PNGs.")] = Path("report"),
    details: Annotated[int, typer.Option(min=0, metavar="N", help="How many runs get charts over time.")] = 8,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Write one HTML file and PNGs about runs.

    The page needs no network and nothing beside it. Prints its path.
    """
    from gpuyard.reports.page import write_report
    from gpuyard.results import load_run

    loaded = [load_run(folder) for folder in runs]
    print(write_report(loaded, out, details=details, progress=(lambda _: None) if quiet else say))
