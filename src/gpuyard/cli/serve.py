"""`gpuyard serve`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuyard.cli.output import Format, say
from gpuyard.cli.serve_simulated import Load, run_simulated

if TYPE_CHECKING:
    from gpuyard.policies.partition import Partition
    from gpuyard.policies.partition.deployment import Deployment

MOST_BODY_MIB = 1024
"""A body is held in memory, as are those of other clients at the same time."""


class ServingWorld(StrEnum):
    """What runs the batches."""

    simulated = "simulated"
    emulated = "emulated"
    cpu = "torch-cpu"
    gpu = "gpu"


SIMULATED = ("load", "trace", "seconds", "scale", "seed", "out", "format")
"""Options that only a simulation has a use for."""
SERVED = (
    "host", "http_port", "grpc_port", "tls_cert", "tls_key", "token_file", "body_limit", "models", "state", "period",
    "preparation",
)  # fmt: skip
"""And those that only a server has."""


def serve(
    context: typer.Context,
    plan: Annotated[
        Path, typer.Argument(metavar="PLAN|TASKS", help="A plan (gpuyard plan --format json), or services to plan for.")
    ],
    gpus: Annotated[
        str, typer.Option(metavar="4x2080ti", help="GPUs that there are, where services are given.")
    ] = "4x2080ti",
    profiles: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE.yaml", help="Profiles of further models, where services are given."),
    ] = None,
    world: Annotated[
        ServingWorld, typer.Option(help="What runs the batches; simulated makes requests of its own, in virtual time.")
    ] = ServingWorld.emulated,
    http_port: Annotated[int, typer.Option(help="Port of HTTP; 0 takes any that is free.")] = 8000,
    grpc_port: Annotated[int, typer.Option(help="Port of gRPC; 0 takes any that is free.")] = 8001,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but loopback needs TLS and a token.")
    ] = "127.0.0.1",
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE.pem", help="Certificate of this server.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE.pem", help="Its key.")] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The token that clients show; else $GPUYARD_SERVE_TOKEN.")
    ] = None,
    body_limit: Annotated[int, typer.Option(metavar="MIB", help="Largest body of a request.")] = 64,
    models: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Real models: NAME.pt2 (torch.export) or NAME.pt, and NAME.json.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the plan in force here, and go on with it.")
    ] = None,
    replan: Annotated[
        bool | None,
        typer.Option(help="Follow the rates: revise the plan each period. A server does unless told not to."),
    ] = None,
    period: Annotated[float, typer.Option(metavar="SECONDS", help="How often a server revises the plan.")] = 20.0,
    preparation: Annotated[
        float, typer.Option(metavar="SECONDS", help="What a new emulated slice takes until it is ready.")
    ] = 12.0,
    load: Annotated[
        Load, typer.Option(help="Simulated requests: drawn, evenly spaced, or after what --trace names.")
    ] = Load.poisson,
    trace: Annotated[
        list[str] | None,
        typer.Option(metavar="[SERVICE=]FILE", help="What --load trace, fluctuating or file reads; may be repeated."),
    ] = None,
    seconds: Annotated[float, typer.Option(help="For how long simulated requests come.")] = 60.0,
    scale: Annotated[float, typer.Option(help="Factor on the planned rates of simulated requests.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of simulated requests.")] = 1,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the run folder of a simulation.")] = Path("runs"),
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no notes.")] = False,
    format: Annotated[Format, typer.Option(help="How to print the result of a simulation.")] = Format.table,
) -> None:
    """Answer requests for inference over HTTP and gRPC (Open Inference Protocol v2), by a plan of slices.

    Prints one line with its ports when it is ready. SIGTERM and Ctrl-C let it answer what is due, and end. With --world
    simulated, requests come and are served in virtual time; prints how each service fared, and keeps the run.
    """
    if world is ServingWorld.simulated:
        _refuse(context, SERVED, "is for a server, not for --world simulated")
        deployment, policy = _deployment(plan, gpus, profiles or ())
        run_simulated(
            deployment, load=load.value, seconds=seconds, seed=seed, traces=trace or (), scale=scale,
            replan=bool(replan), out=out, format=format, policy=policy, quiet=quiet,
        )  # fmt: skip
        return
    _refuse(context, SIMULATED, "is for --world simulated alone")
    _serve(
        plan, gpus, profiles or (), state, quiet, body_limit,
        host=host, http_port=http_port, grpc_port=grpc_port, tls_cert=tls_cert, tls_key=tls_key, token_file=token_file,
        executor=world.value, models=models, replan=replan is not False, period=period, prepare_s=preparation,
    )  # fmt: skip


def _refuse(context: typer.Context, names: Sequence[str], rule: str) -> None:
    """Raise InputError for what was given and would do nothing."""
    from gpuyard.core.errors import InputError

    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise InputError(rule, field=name)


def _serve(
    plan: Path, gpus: str, profiles: Sequence[Path], state: Path | None, quiet: bool, body_limit: int, *,
    token_file: Path | None, period: float, **options: Any,
) -> None:  # fmt: skip
    """Serve for real, until a signal comes."""
    from gpuyard.core.arguments import check_number
    from gpuyard.serving.needed import check_needed, quiet_grpc

    check_number(body_limit, "body_limit", least=1, most=MOST_BODY_MIB, whole=True)
    check_needed(options["executor"])
    quiet_grpc()
    from gpuyard.policies.partition.tracking import Tracking
    from gpuyard.serving.http.values import HttpLimits
    from gpuyard.serving.server import serve as run
    from gpuyard.serving.settings import ServeSettings, read_token
    from gpuyard.serving.state import StateFolder

    limits = HttpLimits(body_bytes=body_limit << 20)
    settings = ServeSettings(token=read_token(token_file), limits=limits, tracking=Tracking.each(period), **options)
    deployment, policy = _deployment(plan, gpus, profiles)
    _check_served(plan, deployment)
    origin = b"".join(each.read_bytes() for each in (plan, *profiles)) + gpus.encode()
    folder = StateFolder(state, origin) if state is not None else None
    if folder is not None:
        folder.take()
    left = run(deployment, policy, settings, folder, lambda ports: print(f"ready: {ports.urls(settings)}", flush=True))
    if not quiet:
        say(f"ended: {left} requests have no answer" if left else "ended: every request has its answer")


def _check_served(path: Path, deployment: Deployment) -> None:
    from gpuyard.core.errors import InputError

    for name, rate in deployment.plan.unserved.items():
        rule = f"finds no place for {rate:g} requests/s: {deployment.plan.why[name]}"
        raise InputError(rule, file=path, field="service", value=name, hint="More --gpus, or a longer SLO, might do")
    if not deployment.plan.slices:
        raise InputError("must have a slice at least: without one there is nothing to serve", file=path, field="slices")


def _deployment(path: Path, gpus: str, profiles: Sequence[Path]) -> tuple[Deployment, Partition]:
    """What to serve: a plan as it is, or one made here for services and applications."""
    from gpuyard.cli.plan_settings import PlanOptions, planned
    from gpuyard.core.errors import InputError
    from gpuyard.policies.partition.deployment_files import load_plan
    from gpuyard.policies.registry import PARTITIONS
    from gpuyard.profiles import load_zoo
    from gpuyard.traces.services import read_asked

    if path.suffix.lower() == ".json":
        if profiles:
            raise InputError("cannot go with a plan, which has its own latencies", field="profiles")
        found = load_plan(path)
        return found, PARTITIONS.find("elastic", interference=found.interference, buffer=found.buffer)
    zoo = load_zoo(profiles) if profiles else None
    asked = read_asked(path, zoo=zoo)
    try:
        return planned(asked, PlanOptions(gpus, zoo=zoo))
    except InputError as error:
        raise asked.located(error, path) from None
