"""`gpuyard demo`."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuyard.cli.output import Format, emit, say
from gpuyard.cli.simulate import run_choices

ORDERS = {
    "fifo": "first come, first served",
    "srtf": "shortest remaining time first",
    "las": "least attained service first",
    "ftf": "finish-time fairness",
}
ALLOCATIONS = ("proportional", "tune")


PATIENCE_S = 1000 * 3600.0
"""Synergy's own rule, without which las and srtf starve the longest jobs of an overloaded cluster."""


class DemoPart(StrEnum):
    """Which part of gpuyard is shown."""

    simulate = "simulate"
    emulate = "emulate"


def demo(
    part: Annotated[
        DemoPart, typer.Argument(metavar="[PART]", help="simulate, or emulate: programs on emulated GPUs.")
    ] = DemoPart.simulate,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for simulated runs and their report.")] = Path(
        "runs/demo"
    ),
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no hints.")] = False,
    format: Annotated[Format, typer.Option(help="How to print the result.")] = Format.table,
) -> None:
    """See what tune buys over proportional, or what an emulated GPU shows, within a minute.

    Simulates thousands of jobs on 128 GPUs under four orderings, each with both ways to share out CPUs and memory.
    `demo emulate` trains models on emulated GPUs: data stalls, sharing and pinned memory, beside GPEmu's figures.
    """
    if part == DemoPart.emulate:
        _emulate(quiet, format)
    else:
        _simulate(out, quiet, format)


def _simulate(out: Path, quiet: bool, format: Format) -> None:
    from gpuyard.reports.page import write_report
    from gpuyard.results import load_run
    from gpuyard.simulation.options import Options

    if not quiet:
        say("Generated jobs, 9 an hour, on 16 servers of 8 GPUs, 24 CPUs and 500 GB; 4000 to 5000 are measured.")
        say("A job that has waited for 1000 hours goes first; without that some orders would never end the longest.")
    policies = [f"{order}+{allocation}" for order in ORDERS for allocation in ALLOCATIONS]
    choices = [Options(policy=policy, starvation_s=PATIENCE_S) for policy in policies]
    figures = dict(zip(policies, run_choices(choices, out, processes=None, quiet=quiet, replace=True), strict=True))
    runs = [load_run(figures[policy]["run"]) for policy in policies]
    page = write_report(runs, out / "report")
    emit([_row(order, figures) for order in ORDERS], format)
    if not quiet:
        _next_steps(page, figures)


def _row(order: str, figures: dict[str, dict[str, Any]]) -> dict[str, Any]:
    before, after = (figures[f"{order}+{allocation}"] for allocation in ALLOCATIONS)
    return {
        "order": f"{order}: {ORDERS[order]}",
        "mean_jct_proportional_h": before["mean_jct_h"],
        "mean_jct_tune_h": after["mean_jct_h"],
        "times_faster": before["mean_jct_h"] / after["mean_jct_h"],
        "p99_jct_proportional_h": before["p99_jct_h"],
        "p99_jct_tune_h": after["p99_jct_h"],
        "p99_times_faster": before["p99_jct_h"] / after["p99_jct_h"],
    }


def _next_steps(page: Path, figures: dict[str, dict[str, Any]]) -> None:
    before, after = (figures[f"fifo+{allocation}"]["run"] for allocation in ALLOCATIONS)
    say(
        f"""
JCT is the time from a job's arrival to its end. Tune gives each job the CPUs and memory that its model can use,
instead of the same share to all; no job gets less than it would have had.

Report: {page}

Try next:
  gpuyard compare {before} {after}
  gpuyard why {before} 4200
  gpuyard simulate --policy srtf+tune --policy srtf+greedy --load 8 --load 9 --load 10"""
    )


def _emulate(quiet: bool, format: Format) -> None:
    from gpuyard.emulation.demo.findings import findings
    from gpuyard.emulation.demo.running import check_packages

    check_packages()
    rows: list[dict[str, Any]] = []
    for what, study in findings():
        if not quiet:
            say(f"{what}…")
        rows += [asdict(finding) for finding in study()]
    emit(rows, format)
    if not quiet:
        program = "python -m gpuyard.emulation.demo.programs.train_steps"
        say(
            f"""
Loader processes, files, copies to pinned memory and Python are real; the GPU's work is time on its timeline. GPEmu's
figures are those in its repository, from other hosts: the trends are to be compared, not the digits.

Try next:
  gpuyard emulate --gpus A100 -- {program} --steps 20
  gpuyard emulate --gpus 2xV100 --clock virtual -- {program} --steps 50
  gpuyard gpus"""
        )
