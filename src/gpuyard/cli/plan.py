"""gpuyard plan: slices of GPUs for services with rates and SLOs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuyard.cli.output import Format, emit, say

if TYPE_CHECKING:
    from gpuyard.policies.partition import Partition

UNSERVED = 3
"""The exit code where not all that is asked for can be served."""
SHOWN = ("service", "model", "batch", "rate", "predicted_latency_ms", "slo_ms")
"""Of each turn, in a table."""


def plan(
    tasks: Annotated[Path, typer.Argument(metavar="TASKS", help="A task list, or a YAML file of services.")],
    gpus: Annotated[str, typer.Option(metavar="4x2080ti", help="GPUs that there are.")] = "4x2080ti",
    policy: Annotated[str, typer.Option(metavar="NAME", help="elastic, squishy, greedy or exhaustive.")] = "elastic",
    profile: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Latencies: model,percent,batch,milliseconds.")
    ] = None,
    interference: Annotated[bool, typer.Option(help="Count what neighbours on a GPU do to each other.")] = True,
    buffer: Annotated[float, typer.Option(help="Factor on every predicted latency.")] = 1.1,
    minimise: Annotated[
        str | None, typer.Option(metavar="gpus", help="Look for the fewest GPUs, however long that takes.")
    ] = None,
    faithful: Annotated[bool, typer.Option("--faithful", help="Plan as gpulet does, with its faults.")] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plan as gpulet's ModelList.txt.")
    ] = None,
    format: Annotated[Format, typer.Option(help="How to print the plan.")] = Format.table,
) -> None:
    """Cut GPUs into slices so that every service answers in time.

    Exits with 3 where not all requests can be served; what is missing is said for each service.
    """
    from gpuyard.core.errors import GpuyardError
    from gpuyard.policies.partition.deployment import Deployment, known_models, serving_cluster
    from gpuyard.policies.partition.deployment_files import as_json
    from gpuyard.profiles.inference import read_latencies
    from gpuyard.profiles.step_files import write_whole
    from gpuyard.traces.services import model_list, read_services

    services = tuple(read_services(tasks))
    cluster = serving_cluster(gpus)
    latencies = read_latencies(profile) if profile is not None else None
    chosen = _policy(policy, faithful, interference=interference, buffer=buffer, minimise=_only_gpus(minimise))
    found = chosen.plan(services, cluster, known_models(cluster, latencies))
    deployment = Deployment(services, cluster, found, buffer, interference, faithful, latencies)
    told = as_json(deployment)
    if told["violations"] and not faithful:
        raise GpuyardError(f"the plan of {policy} does not hold: {told['violations'][0]}")
    if output is not None:
        write_whole(output, model_list(found))
    _print(told, format)
    if not told["feasible"]:
        raise typer.Exit(UNSERVED)


def _only_gpus(minimise: str | None) -> bool | None:
    from gpuyard.core.errors import InputError

    if minimise not in (None, "gpus"):
        raise InputError("is nothing that can be minimised; gpus can", field="minimise", value=minimise)
    return True if minimise else None


def _policy(name: str, faithful: bool, **options: Any) -> Partition:
    from gpuyard.core.errors import InputError, nearest
    from gpuyard.policies.partition.published.policy import SHIPPED
    from gpuyard.policies.registry import PARTITIONS

    if not faithful:
        found: Partition = PARTITIONS.find(name, **options)
        return found
    if name not in SHIPPED:
        raise InputError("has no published variant", field="policy", value=name, hint=nearest(name, SHIPPED))
    return SHIPPED[name](interference=options["interference"], buffer=options["buffer"])


def _print(told: dict[str, Any], format: Format) -> None:
    if format == Format.json:
        json.dump(told, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    rows = [
        {name: each[name] for name in ("gpu", "share", "duty_ms")} | {name: model[name] for name in SHOWN}
        for each in told["slices"] for model in each["models"]
    ]  # fmt: skip
    emit(rows, format)
    if format == Format.table:
        say(f"{told['gpus_used']} GPU{'' if told['gpus_used'] == 1 else 's'} used")
        for each in told["violations"]:
            say(f"not kept: {each}")
        for each in told["unserved"]:
            say(f"not served: {each['rate']:g} requests/s of {each['service']}: {each['reason']}")
