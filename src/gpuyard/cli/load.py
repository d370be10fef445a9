"""gpuyard load: requests to a running inference server, each when it is due."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from gpuyard.cli.output import Format, emit, say

if TYPE_CHECKING:
    from gpuyard.results import Reservation
    from gpuyard.serving.load.run import LoadedModel, LoadResult

T = TypeVar("T")

SHOWN = (
    "model", "sent", "within_slo", "late", "refused", "failed", "answered_per_s", "goodput_per_s",
    "p50_ms", "p90_ms", "p99_ms", "max_ms", "slo_ms", "violation_percent",
)  # fmt: skip
"""Of each model, in a table."""


def load(
    url: Annotated[str, typer.Argument(metavar="URL", help="The server, as in http://127.0.0.1:8000.")],
    plan: Annotated[
        Path | None,
        typer.Option(metavar="PLAN.json", help="Send to services and applications of a plan, at their rates."),
    ] = None,
    model: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Send to this model; repeatable.")] = None,
    rate: Annotated[
        list[float] | None, typer.Option(metavar="R", help="Requests a second, for each --model or one for all.")
    ] = None,
    slo: Annotated[
        list[float] | None, typer.Option(metavar="MS", help="SLO in ms, for each --model or one for all.")
    ] = None,
    load: Annotated[
        str, typer.Option(metavar="KIND", help="poisson, constant, trace, fluctuating or file.")
    ] = "poisson",
    trace: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="The file to follow; SERVICE=FILE for one each.")
    ] = None,
    speed: Annotated[
        float | None, typer.Option(metavar="X", help="Follow a trace X times as fast as recorded; else whole.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Deal a trace to the models by the values of a column.")
    ] = None,
    as_recorded: Annotated[bool, typer.Option("--as-recorded", help="Do not scale a trace to the rates.")] = False,
    scale: Annotated[float, typer.Option(metavar="X", help="Factor on all rates.")] = 1.0,
    seconds: Annotated[float, typer.Option(metavar="S", help="How long requests are sent.")] = 20.0,
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 1,
    protocol: Annotated[Literal["http", "grpc"], typer.Option(help="How to speak with the server.")] = "http",
    clients: Annotated[int, typer.Option(metavar="N", help="Processes that send.")] = 1,
    connections: Annotated[int, typer.Option(metavar="N", help="Of all clients together, at most.")] = 512,
    batch: Annotated[int, typer.Option(metavar="N", help="Rows of each request.")] = 1,
    as_json: Annotated[bool, typer.Option("--json-tensors", help="Send tensors as JSON, not as bytes.")] = False,
    timeout: Annotated[float, typer.Option(metavar="S", help="A request failed that takes longer.")] = 30.0,
    check: Annotated[bool, typer.Option("--check", help="Compare with the server's own statistics.")] = False,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The token that the server wants; else $GPUYARD_SERVE_TOKEN.")
    ] = None,
    authorities: Annotated[
        Path | None, typer.Option("--ca", metavar="FILE", help="Certificates to trust, for https.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the run as a folder here.")] = None,
    format: Annotated[Format, typer.Option(help="How to print the figures.")] = Format.table,
) -> None:
    """Send requests to an inference server (Open Inference Protocol v2), each when it is due.

    Latency counts from when a request was due, so that a server that falls behind cannot hide it. Exits with 1 if the
    server cannot be reached. Ctrl-C ends the load and reports what was done.
    """
    _check_needed()
    from gpuyard.cli.progress import Progress
    from gpuyard.core.errors import GpuyardError, InputError
    from gpuyard.serving.load.run import LoadOptions, run_load
    from gpuyard.serving.load.run_folder import save_load
    from gpuyard.serving.load.target import Target
    from gpuyard.serving.settings import read_token
    from gpuyard.traces.arrivals import make_arrivals

    named = None if authorities is None else str(authorities)
    target = Target.parse(url, grpc=protocol == "grpc", token=read_token(token_file), authorities=named)
    options = LoadOptions(clients, connections, timeout, batch, as_json, check)
    if plan is not None and (model or rate or slo):
        raise InputError("has models, rates and SLOs of its own: leave out --model, --rate and --slo", field="plan")
    if not rate and load == "file":
        rate = [0.0]  # the file says when
    asked = _of_plan(plan) if plan is not None else _of_options(model or [], rate or [], slo or [])
    arrivals = make_arrivals(
        load, {each.service: each.rate_per_s * scale for each in asked}, seconds, seed,
        files=trace or (), speed=speed, by=by, scaled=not as_recorded,
    )  # fmt: skip
    with _place(out) as place:
        with Progress(len(arrivals), "requests") as progress:
            result = run_load(
                target, asked, arrivals, seconds, options, watch=lambda _, ended: progress.update(ended)
            )  # fmt: skip
        _report(result, format)
        if place is not None:
            save_load(result, place, {"load": load, "seed": seed, "trace": list(trace or ()), "scale": scale})
    if result.interrupted:
        raise KeyboardInterrupt(f"after {result.duration_s:.1f} s of {seconds:g}; the figures are of what was sent")
    if result.unchecked is not None:
        raise GpuyardError(f"the check was impossible: {result.unchecked}")


def _check_needed() -> None:
    from importlib.util import find_spec

    from gpuyard.core.errors import MissingExtraError

    if any(find_spec(name) is None for name in ("httptools", "orjson", "grpc")):
        raise MissingExtraError("gpuyard load", "serve")


def _of_plan(path: Path) -> list[LoadedModel]:
    from gpuyard.policies.partition.deployment_files import load_plan
    from gpuyard.serving.load.run import LoadedModel

    return [LoadedModel(each.service_id, each.slo_ms, each.rate_per_s) for each in load_plan(path).asked]


def _of_options(models: list[str], rates: list[float], slos: list[float]) -> list[LoadedModel]:
    from gpuyard.core.errors import InputError
    from gpuyard.serving.load.run import LoadedModel

    if not models or not rates:
        raise InputError("is missing: name a --plan, or a --model and its --rate", field="rate" if models else "model")
    if len(set(models)) < len(models):
        raise InputError("stands twice", field="model", value=max(models, key=models.count))
    slos_ms: list[float | None] = [*slos] or [None]
    columns = models, _for_each(models, slos_ms, "slo"), _for_each(models, rates, "rate")
    return [LoadedModel(*each) for each in zip(*columns, strict=True)]


def _for_each(models: list[str], given: list[T], name: str) -> list[T]:
    """One value for each model."""
    from gpuyard.core.errors import InputError

    if len(given) not in (1, len(models)):
        rule = f"must be given once, or once for each of the {len(models)} models"
        raise InputError(rule, field=name, value=given)
    return given * len(models) if len(given) == 1 else given


def _report(result: LoadResult, format: Format) -> None:
    rows = result.rows()
    emit(rows, format, columns=SHOWN if format == Format.table else None)
    for line in _remarks(rows):
        say(line)


def _remarks(rows: list[dict[str, Any]]) -> list[str]:
    """What a table does not show, and what should not be overlooked."""
    from gpuyard.serving.load.figures import BEHIND_S

    found = [
        f"{row['model']}: {', '.join(f'{n} {why}' for why, n in row['why'].items())}" for row in rows if row["why"]
    ]
    checked = [row for row in rows if "differences" in row]
    found += [f"{row['model']}: the server disagrees: {each}" for row in checked for each in row["differences"]]
    if checked and not any(row["differences"] for row in checked):
        found.append("the server's own statistics agree")
    behind, sent, most_ms = (rows[-1][name] for name in ("sent_behind", "sent", "behind_max_ms"))
    if behind:
        found.append(
            f"{behind} of {sent} requests went out more than {BEHIND_S * 1000:g} ms after they were due, at most "
            f"{most_ms:.0f} ms, and their latency counts from then on: this machine is busy, or more --clients or "
            "--connections are needed"
        )
    return found


def _place(out: Path | None) -> AbstractContextManager[Reservation | None]:
    """Keep the name of the run folder before anything is sent."""
    from gpuyard.results import reserve

    return nullcontext() if out is None else reserve(out)
