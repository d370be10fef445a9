"""`gpuyard serve`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuyard.cli.output import Format
from gpuyard.cli.serve_simulated import Load, run_simulated

if TYPE_CHECKING:
    from gpuyard.policies.partition import Partition
    from gpuyard.policies.partition.deployment import Deployment


class ServingWorld(StrEnum):
    """What runs the batches."""

    simulated = "simulated"


def serve(
    plan: Annotated[
        Path, typer.Argument(metavar="PLAN|TASKS", help="A plan (gpuyard plan --format json), or services to plan for.")
    ],
    gpus: Annotated[
        str, typer.Option(metavar="4x2080ti", help="GPUs that there are, where services are given.")
    ] = "4x2080ti",
    world: Annotated[ServingWorld, typer.Option(help="What runs the batches.")] = ServingWorld.simulated,  # noqa: ARG001
    load: Annotated[
        Load, typer.Option(help="Simulated requests: at random, evenly spaced, after a recorded trace, or from a file.")
    ] = Load.poisson,
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="What --load trace or file reads.")] = None,
    seconds: Annotated[float, typer.Option(help="For how long simulated requests come.")] = 60.0,
    scale: Annotated[float, typer.Option(help="Factor on the planned rates of simulated requests.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of simulated requests.")] = 1,
    replan: Annotated[bool, typer.Option("--replan", help="Follow the rates: revise the plan each period.")] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the run folder.")] = Path("runs"),
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no notes.")] = False,
    format: Annotated[Format, typer.Option(help="How to print the result.")] = Format.table,
) -> None:
    """Serve a plan of slices in virtual time, request by request.

    Prints how each service fared, and keeps the run as a folder that compare and report can read.
    """
    deployment, policy = _deployment(plan, gpus)
    run_simulated(
        deployment, load=load.value, seconds=seconds, seed=seed, trace=trace, scale=scale, replan=replan, out=out,
        format=format, policy=policy, quiet=quiet,
    )  # fmt: skip


def _deployment(path: Path, gpus: str) -> tuple[Deployment, Partition]:
    """What to serve: a plan as it is, or one made here for a list of services."""
    from gpuyard.policies.partition.deployment import Deployment, known_models, serving_cluster
    from gpuyard.policies.partition.deployment_files import load_plan
    from gpuyard.policies.registry import PARTITIONS
    from gpuyard.traces.services import read_services

    if path.suffix.lower() == ".json":
        found = load_plan(path)
        return found, PARTITIONS.find("elastic", interference=found.interference, buffer=found.buffer)
    services, cluster = tuple(read_services(path)), serving_cluster(gpus)
    policy: Partition = PARTITIONS.find("elastic")
    return Deployment(services, cluster, policy.plan(services, cluster, known_models(cluster))), policy
