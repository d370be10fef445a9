"""gpuyard trace: look at, convert and generate workloads."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gpuyard.cli.output import Format, emit, human, say
from gpuyard.core.errors import InputError

if TYPE_CHECKING:
    from gpuyard.core.workload import Workload
    from gpuyard.profiles import Zoo
    from gpuyard.traces import Filter

app = typer.Typer(
    help="Look at, convert and generate workloads.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)

_FACT_WIDTH = 58

SUFFIXES = (".yaml", ".yml", ".parquet", ".csv")
"""What a workload can be written as: gpuyard's own formats, and Synergy's recorded trace."""

_File = Annotated[Path, typer.Argument(metavar="FILE", help="A trace of any known format; .gz is unpacked.")]
_Out = Annotated[
    Path, typer.Option("--out", "-o", metavar="FILE", help=".yaml or .parquet (gpuyard's own), or .csv (Synergy's).")
]
_As = Annotated[
    str | None, typer.Option("--as", metavar="FORMAT", help="Read it as this format instead of telling by its content.")
]
_Seed = Annotated[int, typer.Option(metavar="N", help="Seed of everything that is drawn.")]
_Load = Annotated[float, typer.Option(metavar="RATE", help="Jobs an hour.")]
_Split = Annotated[str, typer.Option(metavar="A,B,C", help="Percent of image, language and speech jobs.")]
_Assign = Annotated[Literal["overall", "random", "fair"], typer.Option(help="How models are assigned to jobs.")]
_Gpus = Annotated[str | None, typer.Option(metavar="MIN:MAX", help="Only jobs of so many GPUs.")]
_Between = Annotated[
    str | None,
    typer.Option(
        metavar="FROM:UNTIL", help="Only jobs that arrive in this time, as in 2d:9d; the clock starts with it."
    ),
]
_Tenant = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Only jobs of this tenant; repeat for several.")
]
_Profiles = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="Profiles of your own models; repeat for several.")
]


@app.command()
def info(
    file: _File,
    *,
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.table,
    read_as: _As = None,
    split: _Split = "20,70,10",
    seed: _Seed = 42,
    gpus: _Gpus = None,
    between: _Between = None,
    tenant: _Tenant = None,
    profiles: _Profiles = None,
) -> None:
    """Say what a trace holds."""
    from gpuyard.profiles import load_zoo
    from gpuyard.traces import ReadOptions, Source, describe, find_reader

    source, zoo = Source.open(file), load_zoo(profiles or ())
    reader = find_reader(source, read_as)
    workload = reader.read(source, ReadOptions(seed=seed, split=_shares(split), zoo=zoo))
    facts = {"format": reader.name, **describe(_filter(gpus, between, tenant).apply(workload), zoo)}
    emit(_lines(facts) if format == Format.table else [facts], format)


@app.command()
def convert(
    file: _File,
    out: Annotated[Path, typer.Argument(metavar="OUT", help=".yaml or .parquet (gpuyard's own), or .csv (Synergy's).")],
    *,
    read_as: _As = None,
    arrivals: Annotated[
        Literal["trace", "exponential", "static"], typer.Option(help="Keep the trace's arrivals, or draw new ones.")
    ] = "trace",
    load: _Load = 9.0,
    split: _Split = "20,70,10",
    assign: _Assign = "overall",
    seed: _Seed = 42,
    gpus: _Gpus = None,
    between: _Between = None,
    tenant: _Tenant = None,
    profiles: _Profiles = None,
) -> None:
    """Read a trace and write it in another format."""
    from gpuyard.profiles import load_zoo
    from gpuyard.traces import read_workload, with_arrivals

    zoo = load_zoo(profiles or ())
    workload = read_workload(
        file, format=read_as, load=load, split=_shares(split), assignment=assign, seed=seed, zoo=zoo
    )
    workload = _filter(gpus, between, tenant).apply(workload)
    if arrivals != "trace":
        workload = with_arrivals(workload, arrivals, load=load, seed=seed)
    _save(workload, out, zoo)


@app.command()
def generate(
    *,
    out: _Out,
    jobs: Annotated[int, typer.Option(metavar="N", help="How many jobs.")] = 8000,
    load: _Load = 9.0,
    split: _Split = "20,70,10",
    seed: _Seed = 42,
    multi_gpu: Annotated[bool, typer.Option("--multi-gpu", help="Jobs of 1, 2, 4 and 8 GPUs.")] = False,
    small: Annotated[bool, typer.Option("--small", help="Durations of up to 10^2.7 minutes, not 10^4.")] = False,
    arrivals: Annotated[
        Literal["exponential", "static"], typer.Option(help="A stream, or all at once.")
    ] = "exponential",
    assign: _Assign = "overall",
    gpus: _Gpus = None,
    between: _Between = None,
    tenant: _Tenant = None,
    profiles: _Profiles = None,
) -> None:
    """Draw a workload as Synergy draws it.

    The defaults give the very workload of its published check values.
    """
    from gpuyard import traces
    from gpuyard.profiles import load_zoo

    zoo = load_zoo(profiles or ())
    workload = traces.generate(
        jobs,
        load=load,
        split=_shares(split),
        seed=seed,
        multi_gpu=multi_gpu,
        arrivals=arrivals,
        durations="small" if small else "exponential",
        assignment=assign,
        zoo=zoo,
    )
    _save(_filter(gpus, between, tenant).apply(workload), out, zoo)


def _shares(text: str) -> tuple[float, float, float]:
    try:
        image, language, speech = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            "must be three numbers: image,language,speech", field="--split", value=text, hint="Example: 20,70,10"
        ) from None
    return image, language, speech


def _filter(gpus: str | None, between: str | None, tenants: list[str] | None) -> Filter:
    from gpuyard.traces.filters import Filter, size_range, time_range

    sizes, times = gpus and size_range(gpus), between and time_range(between)
    return Filter(sizes or None, times or None, tuple(tenants or ()))


def _save(workload: Workload, out: Path, zoo: Zoo) -> None:
    from gpuyard.traces import record, write

    if out.suffix.lower() not in SUFFIXES:
        raise InputError(
            "is not a suffix of a workload file", file=out, value=out.suffix, hint="Known: " + ", ".join(SUFFIXES)
        )
    if out.suffix.lower() == ".csv":
        if lost := record(workload, out, iteration_s={name: zoo.profile(name).iteration_s for name in workload.models}):
            say(f"Synergy's CSV has no column for {', '.join(lost)}: left out; write .parquet or .yaml to keep them.")
    else:
        write(workload, out)
    for note in workload.notes:
        say(note)
    say(f"{out}: {len(workload)} jobs")


def _lines(facts: dict[str, Any]) -> list[dict[str, str]]:
    """Break long facts into several lines, so that a table of them fits a terminal."""
    rows = []
    for name, value in facts.items():
        if isinstance(value, dict):
            texts = [", ".join(f"{key}: {count}" for key, count in value.items())]
        else:
            texts = [human(one) for one in (value if isinstance(value, list) else [value])]
        lines = [line for text in texts for line in wrap(text, _FACT_WIDTH)]
        labels = [name.replace("_", " "), *[""] * (len(lines) - 1)]
        rows += [{"what": label, "value": line} for label, line in zip(labels, lines, strict=False)]
    return rows
