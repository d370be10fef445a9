"""`gpuyard why`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuyard.cli.output import Format, emit, say

if TYPE_CHECKING:
    from gpuyard.reports.story import Story

SHOWN = 20
"""Rows of a long story that a table shows."""


def why(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")],
    job: Annotated[str, typer.Argument(metavar="JOB", help="Id of a job in it.")],
    format: Annotated[Format, typer.Option(help="JSON has everything, CSV one line a span or wait.")] = Format.table,
) -> None:
    """Say why a job of a run waited, and how long for which reason.

    Also when and where it ran, what slowed it, and what would help.
    """
    from gpuyard.reports.story import tell
    from gpuyard.results import load_run

    story = tell(load_run(run), job)
    if format == Format.json:
        emit([_everything(story)], format)
    elif format == Format.csv:
        emit(story.events, format)
    else:
        _print(story)


def _everything(story: Story) -> dict[str, Any]:
    return {
        "sentence": story.sentence,
        **story.job,
        "slow_s": story.slow_s,
        "short_of_cpus_s": story.short_of_cpus_s,
        "mean_speed": story.mean_speed,
        "events": story.events,
        "advice": story.advice,
    }


def _print(story: Story) -> None:
    print(story.sentence)
    if story.waits:
        print()
        emit([wait | {"share": f"{wait['share']:.0%}"} for wait in story.waits], Format.table)
    if story.events:
        print()
        emit(story.events[:SHOWN], Format.table)
    if len(story.events) > SHOWN:
        say(f"… and {len(story.events) - SHOWN} more lines: --format csv has them all")
    print("\nWhat would help:")
    for line in story.advice:
        print(f"  {line}")
