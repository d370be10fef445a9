"""What `gpuyard share` offers around experiments: how often to synchronise, kernels of a trace, pairs of models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuyard.cli.output import Format, emit, say

if TYPE_CHECKING:
    from gpuyard.core.sharing import KernelSequence

FormatOption = Annotated[Format, typer.Option(help="How to print it.")]


def predict(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", help="Files of kernels ('gpuyard share profile' makes them), or experiments."),
    ],
    *,
    format: FormatOption = Format.table,
) -> None:
    """Say how often a job should synchronise so that its delay and that of whoever preempts it are least together."""
    emit([row for file in files for row in _predictions(file)], format)


def profile(
    trace: Annotated[
        Path,
        typer.Argument(metavar="TRACE", help="Of nsys: export --type sqlite, or stats -r kernexectrace --format csv"),
    ],
    *,
    jobs: Annotated[int, typer.Option(help="How many equal jobs the trace is of.")],
    pid: Annotated[int | None, typer.Option(help="Of which process, where the trace has several.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.json", help="Write the kernels here.")
    ] = None,
    format: FormatOption = Format.table,
) -> None:
    """Turn a kernel trace of Nsight Systems into a file of kernels that experiments can name."""
    from gpuyard.profiles.kernel_sequences import write_sequence
    from gpuyard.traces.sharing import read_nsys

    found = read_nsys(trace, jobs, pid)
    if out is not None:
        write_sequence(found.sequence, found.longest_queue, out)
    emit([_prediction(trace.name, found.sequence, found.longest_queue)], format)


def pairs(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is empty or not there.")],
    *,
    model: Annotated[
        list[str] | None, typer.Option(help="Models to pair; by default six detectors and codegen.")
    ] = None,
    sync_every: Annotated[str, typer.Option(metavar="N[,N…]", help="Intervals of the background job.")] = "1,50,500",
    batches: Annotated[str, typer.Option(metavar="N[,N…]", help="Batch sizes of the background job.")] = "1,8",
    urgent_batches: Annotated[str, typer.Option(metavar="N[,N…]", help="Batch sizes of the urgent job.")] = "1,4",
    gpus: Annotated[int, typer.Option(help="GPUs, which take turns.")] = 3,
    seconds: Annotated[int, typer.Option(help="Of each experiment.")] = 90,
) -> None:
    """Write an experiment for every ordered pair of models and every setting, as the study does."""
    from gpuyard.traces.sharing import PairChoice, write_pairs
    from gpuyard.traces.sharing.pairs import MODELS

    numbers = {"sync_every": sync_every, "batches": batches, "urgent_batches": urgent_batches}
    lists = {name: tuple(_whole(each, name) for each in text.split(",")) for name, text in numbers.items()}
    choice = PairChoice(tuple(model or MODELS), gpus=_whole(gpus, "gpus"), seconds=_whole(seconds, "seconds"), **lists)
    say(f"{len(write_pairs(choice, out))} experiments in {out}")


def _predictions(file: Path) -> list[dict[str, Any]]:
    from gpuyard.profiles.kernel_sequences import is_sequence, read_sequence
    from gpuyard.traces.sharing import read_experiment

    if is_sequence(file):
        return [_prediction(file.stem, *read_sequence(file))]
    return [_prediction(job.name, job.sequence, None) for job in read_experiment(file).jobs]


def _prediction(name: str, sequence: KernelSequence, longest_queue: float | None) -> dict[str, Any]:
    from math import inf

    from gpuyard.policies.timeshare.launch.sync_interval import best_interval, execution_delay, preemption_delay

    kernels, queue = len(sequence.durations_s), longest_queue or inf
    interval = best_interval(kernels, sequence.mean_s, longest_queue=queue)
    return {
        "job": name,
        "kernels": kernels,
        "kernel_ms": sequence.mean_s * 1000,
        "longest_queue": longest_queue,
        "sync_every": interval,
        "preemption_delay_ms": preemption_delay(interval, sequence.mean_s, queue) * 1000,
        "execution_delay_ms": execution_delay(interval, kernels) * 1000,
        "kernels_from": sequence.source,
    }


def _whole(value: Any, field: str) -> int:
    from gpuyard.core.errors import InputError

    text = str(value).strip()
    if not text.isdigit() or not int(text):
        raise InputError("must be a whole number, 1 or more", field=field, value=text)
    return int(text)
