"""gpuyard plan: slices of GPUs for services with rates and SLOs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuyard.cli.output import Format, say

if TYPE_CHECKING:
    from gpuyard.policies.partition import Partition
    from gpuyard.policies.partition.deployment import Deployment

UNSERVED = 3
"""The exit code where not all that is asked for can be served."""


def plan(
    tasks: Annotated[
        Path, typer.Argument(metavar="TASKS", help="A task list, a YAML file of services, or an application's JSON.")
    ],
    gpus: Annotated[str | None, typer.Option(metavar="4x2080ti", help="GPUs that there are.")] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="NAME", help="elastic, squishy, greedy, exhaustive or self-tuning.")
    ] = None,
    profile: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Latencies: model,percent,batch,milliseconds.")
    ] = None,
    profiles: Annotated[
        list[Path] | None, typer.Option(metavar="FILE.yaml", help="Profiles of further models; repeat for several.")
    ] = None,
    interference: Annotated[
        bool | None,
        typer.Option("--interference/--no-interference", help="Count what neighbours on a GPU do to each other."),
    ] = None,
    buffer: Annotated[float | None, typer.Option(help="Factor on every predicted latency; 1.1 if not given.")] = None,
    minimise: Annotated[
        str | None, typer.Option(metavar="gpus", help="Look for the fewest GPUs, however long that takes.")
    ] = None,
    faithful: Annotated[bool, typer.Option("--faithful", help="Plan as gpulet does, with its faults.")] = False,
    rate: Annotated[
        list[str] | None, typer.Option(metavar="[APP=]RATE", help="Requests a second of gpulet's applications.")
    ] = None,
    scheduler: Annotated[Path | None, typer.Option(metavar="FILE.json", help="gpulet's scheduler settings.")] = None,
    devices: Annotated[Path | None, typer.Option(metavar="FILE.json", help="gpulet's GPU types.")] = None,
    before: Annotated[
        Path | None, typer.Option("--from", metavar="PLAN.json", help="Keep what can be kept of this plan.")
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(metavar="CHANGE", help="Compare with +20%, MODEL=RATE or +MODEL:RATE:SLO."),
    ] = None,
    picture: Annotated[Path | None, typer.Option(metavar="FILE.png|.svg", help="Draw the GPUs and slices.")] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plan as gpulet's ModelList.txt.")
    ] = None,
    format: Annotated[Format, typer.Option(help="How to print the plan.")] = Format.table,
) -> None:
    """Cut GPUs into slices so that every service answers in time.

    Exits with 3 where not all requests can be served in time; what is missing is said for each service.
    """
    from gpuyard.cli.plan_settings import PlanOptions, check_targets, planned, planned_from
    from gpuyard.cli.plan_views import show_plan
    from gpuyard.core.errors import GpuyardError, InputError
    from gpuyard.policies.partition.deployment_files import as_json, load_plan
    from gpuyard.policies.partition.moves import moves
    from gpuyard.profiles import load_zoo
    from gpuyard.traces.services import read_asked

    check_targets(
        {"output": output, "picture": picture}, (tasks, profile, *(profiles or ()), scheduler, devices, before)
    )
    zoo = load_zoo(profiles) if profiles else None
    options = PlanOptions(gpus, policy, profile, interference, buffer, minimise, faithful, scheduler, devices, zoo)
    asked = read_asked(tasks, _rates(rate or []), zoo)
    present = load_plan(before) if before is not None else None
    try:
        found, chosen = planned(asked, options) if present is None else planned_from(present, asked, options)
    except InputError as error:
        raise asked.located(error, tasks) from None
    told, late = as_json(found), found.end_to_end.violations(found.applications)
    broken = [each for each in told["violations"] if each not in map(str, late)]
    if broken and not faithful:
        raise GpuyardError(f"the plan of {policy or 'elastic'} does not hold: {broken[0]}")
    if present is not None:
        told["moves"] = [str(each) for each in moves(present, found)]
    _write(found, output, picture)
    if what_if:
        _compare(found, chosen, what_if, format)
        return
    show_plan(told, format)
    if not told["feasible"] or (late and not faithful):
        raise typer.Exit(UNSERVED)


def _rates(given: list[str]) -> dict[str, float]:
    """By application; "" for a rate without a name."""
    from gpuyard.core.errors import InputError

    found: dict[str, float] = {}
    for text in given:
        name, _, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = 0.0
        if not 0 < value < float("inf"):
            raise InputError("must be a number above 0, or APP=NUMBER", field="rate", value=text)
        found[name] = value
    return found


def _write(found: Deployment, output: Path | None, picture: Path | None) -> None:
    from gpuyard.profiles.step_files import write_whole
    from gpuyard.traces.services import model_list

    if output is not None:
        write_whole(output, model_list(found.plan))
    if picture is not None:
        from gpuyard.reports.slices_chart import draw_slices

        draw_slices(found, picture)
        say(f"picture: {picture}")


def _compare(found: Deployment, policy: Partition, changes: list[str], format: Format) -> None:
    from gpuyard.cli.plan_views import show_outlooks
    from gpuyard.policies.partition.what_if import outlook

    others: list[tuple[str, Any]] = [(", ".join(changes), outlook(found, changes, policy))]
    show_outlooks(outlook(found, (), policy), others, format)
