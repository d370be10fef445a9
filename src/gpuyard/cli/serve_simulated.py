"""`gpuyard serve --world simulated`: a plan served in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuyard.cli.output import Format, emit, human, say
from gpuyard.cli.progress import Progress

if TYPE_CHECKING:
    from gpuyard.policies.partition.deployment import Deployment
    from gpuyard.policies.partition.interface import Partition
    from gpuyard.results import Run
    from gpuyard.traces.arrivals import Arrivals

COLUMNS = ["service", "requests", "goodput_per_s", "violations", "p50_ms", "p99_ms", "slo_ms"]
"""What the table shows; JSON and CSV have every figure."""


class Load(StrEnum):
    """Where requests come from."""

    poisson = "poisson"
    constant = "constant"
    trace = "trace"
    fluctuating = "fluctuating"
    file = "file"


def run_simulated(
    deployment: Deployment,
    *,
    load: str = Load.poisson,
    seconds: float = 60.0,
    seed: int = 1,
    traces: Sequence[str] = (),
    scale: float = 1.0,
    replan: bool = False,
    out: Path = Path("runs"),
    format: str = Format.table,
    policy: Partition | None = None,
    quiet: bool = False,
) -> None:
    """Serve, keep the run as a folder and print how each service fared; an interrupt keeps what is done."""
    from gpuyard.results import folder_name, reserve_next
    from gpuyard.simulation.serving.engine import ServingOptions, simulate_serving

    arrivals = _arrivals(deployment, load, seconds, seed, traces, scale)
    inputs = {"load": load, "scale": scale, "seed": seed, "trace": ", ".join(traces) or None}
    options = ServingOptions(
        seconds=None if load == Load.file else seconds,
        replanning=_replanning(deployment, policy) if replan else None,
        inputs=inputs,
    )
    name = folder_name(f"serve-{load}", scale if scale != 1.0 else None, seed, "replan" if replan else "")
    with reserve_next(out / name) as place, Progress(len(arrivals), "requests", quiet=quiet) as progress:
        run = simulate_serving(deployment, arrivals, options, progress=progress.update).save(place)
    _print(run, format)
    if format == Format.table and not quiet:
        say(f"run: {run.path}")
    if run.info["stopped_s"] is not None:
        raise KeyboardInterrupt(f"{run.info['stopped_s']:.1f} s were served and are kept in {run.path}")


def _arrivals(
    deployment: Deployment, load: str, seconds: float, seed: int, traces: Sequence[str], scale: float
) -> Arrivals:
    from gpuyard.core.arguments import check_number
    from gpuyard.core.errors import InputError
    from gpuyard.traces.arrivals import make_arrivals, read_arrivals

    check_number(scale, "scale", least=0)
    rates = {each.service_id: each.rate_per_s * scale for each in deployment.asked}
    if load == Load.file and scale != 1.0:
        raise InputError("has requests at times of their own, which --scale cannot change", field="load", value=load)
    if load == Load.file and len(traces) == 1:  # whole, however long it is
        return read_arrivals(traces[0], (*deployment.service, *(each.name for each in deployment.applications)))
    return make_arrivals(load, rates, seconds, seed, files=traces)


def _replanning(deployment: Deployment, policy: Partition | None) -> Any:
    from gpuyard.policies.registry import PARTITIONS
    from gpuyard.simulation.serving.following import Replanning

    options = {"interference": deployment.interference, "buffer": deployment.buffer}
    return Replanning(policy or PARTITIONS.find("elastic", **options))


def _print(run: Run, format: str) -> None:
    services = run["services"].to_dicts()
    if format == Format.table:
        rows = [row | {"violations": _told(row["violations"], ".2%")} for row in services]
        emit(rows, format, columns=COLUMNS)
        late, goodput, gpus = (
            _told(run.summary[name], how)
            for name, how in (("violations", ".2%"), ("goodput_per_s", ",.1f"), ("gpus_in_use", ".2f"))
        )
        say(f"{run.summary['requests']:,} requests: {late} not answered in time, {goodput}/s in time, on {gpus} GPUs")
    elif format == Format.json:
        emit([run.summary | {"services": services}], format)
    else:
        emit(services, format)


def _told(figure: float | None, how: str) -> str:
    """A dash where there were no requests to tell it by."""
    return human(figure) if figure is None else format(figure, how)
