"""`gpuyard calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpuyard.cli.output import Format, emit, say


def calibrate(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders of 'gpuyard run'.")],
    options: Annotated[bool, typer.Option("--options", help="Print nothing but options for simulate.")] = False,
    format: Annotated[Format, typer.Option(help="How to print the result.")] = Format.table,
) -> None:
    """Measure what starts and checkpoints cost in runs with real processes, as options of the simulator.

    Prints each cost with its mean, its spread and the number of samples. Several runs are taken together. With
    --options, as in: gpuyard simulate $(gpuyard calibrate RUN --options).
    """
    from gpuyard.reports.calibration import calibrate as measured
    from gpuyard.results import load_run

    found = measured([load_run(folder) for folder in runs])
    if options:
        print(found.words())
        return
    emit([cost.as_row() for cost in found.costs], format)
    if format == Format.table:
        say(f"for simulate: {found.words()}")
