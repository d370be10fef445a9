"""gpuyard profiles: look at profiles, and bring one's own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuyard.cli.output import Format, emit, plain, say
from gpuyard.cli.profile_views import as_dicts, facts, fit_row, model_row, point_row, slice_rows, speed_row

if TYPE_CHECKING:
    from gpuyard.profiles import Zoo
    from gpuyard.profiles.steps import StepProfile

app = typer.Typer(
    help="Look at profiles, and bring one's own.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)

_Format = Annotated[Format, typer.Option(help="How to print it.")]
_Profiles = Annotated[
    list[Path] | None, typer.Option(metavar="FILE.yaml", help="Profiles of further models; repeat for several.")
]
_Precision = Annotated[str, typer.Option(metavar="NAME", help="fp32, tf32, fp16, bf16, …")]


@app.command("list")
def list_profiles(*, profiles: _Profiles = None, format: _Format = Format.table) -> None:
    """List every model of which anything is known, and what.

    Throughput says what CPUs and memory beside a GPU are worth, and is what simulations need; steps say how long a step
    takes on a GPU, and are what the emulated GPU needs; latency says how long inference takes on slices of a GPU, and
    is what plans and servers need.
    """
    from gpuyard.profiles import load_zoo

    zoo = load_zoo(profiles or ())
    emit([model_row(zoo, model) for model in zoo.models], format)


@app.command()
def show(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Any of its names; 'gpuyard profiles list' has all.")],
    *,
    gpu: Annotated[
        str | None, typer.Option(metavar="KIND", help="Show its steps on this GPU kind; 'gpuyard gpus' has them all.")
    ] = None,
    precision: _Precision = "fp32",
    slices: Annotated[
        bool, typer.Option("--slices", help="With --gpu: latency of inference there, by batch size and slice.")
    ] = False,
    profiles: _Profiles = None,
    format: _Format = Format.table,
) -> None:
    """Show what is known of a model: its parts, and its speed on every GPU kind; or its steps on one, by batch size."""
    from gpuyard.core.errors import InputError
    from gpuyard.profiles import load_zoo

    if slices and gpu is None:
        raise InputError("needs the GPU kind that the slices are of, --gpu KIND", field="slices")
    zoo = load_zoo(profiles or ())
    if gpu is None:
        _show_model(zoo, model, format)
    elif slices:
        _show_slices(zoo, gpu, model, format)
    else:
        _show_steps(zoo, gpu, model, precision, format)


def _show_model(zoo: Zoo, name: str, format: Format) -> None:
    from gpuyard.profiles import gpu_kinds

    profile = zoo.profile(name)
    told, rows = facts(zoo, profile), [speed_row(profile, kind.key) for kind in gpu_kinds()]
    if format == Format.json:
        parts = {name: getattr(profile, name) for name in ("latency", "serving", "memory", "slowdown")}
        grid = {name: getattr(profile, name) for name in ("cpu_grid", "memory_grid", "throughput")}
        grids = {name: values.tolist() for name, values in grid.items()}
        _print_json({**told, **grids, **{name: as_dicts(part) for name, part in parts.items()}, "rows": rows})
        return
    emit(rows, format)
    if format == Format.table:
        print()
        for fact, value in told.items():
            print(f"{fact:<14} {value}")


def _show_slices(zoo: Zoo, gpu: str, model: str, format: Format) -> None:
    from gpuyard.core.errors import InputError
    from gpuyard.profiles import gpu_key

    profile, key = zoo.profile(model), gpu_key(gpu)
    found = next((each for each in profile.latency if each.gpu == key), None)
    if found is None:
        known = ", ".join(each.gpu for each in profile.latency) or "none"
        rule = f"has no latencies of {profile.name}"
        raise InputError(rule, field="gpu", value=gpu, hint=f"Kinds that have: {known}")
    rows = slice_rows(found)
    if format == Format.json:
        memory_mb, interference = zoo.gpu_sharing(key)
        shared = {"gpu_memory_mb": memory_mb, "interference": interference._asdict()}
        _print_json({"model": profile.name, "gpu": key, **shared, "rows": rows})
        return
    emit(rows, format)
    if format == Format.table:
        print(f"\n{profile.name} on {key}: ms by slice in percent; traffic as parts of what L2 and DRAM can do")


def _show_steps(zoo: Zoo, gpu: str, model: str, precision: str, format: Format) -> None:
    from gpuyard.profiles import find_step_profile, gpu_key

    stated = zoo.profile(model).steps if zoo.knows(model) else ()
    own = [each for each in stated if (each.gpu, each.precision) == (gpu_key(gpu), precision)]
    profile = own[0] if own else find_step_profile(gpu, model, precision=precision)
    rows = [point_row(point) for point in profile.points]
    if format == Format.json:
        facts = {name: value for name, value in vars(profile).items() if name != "points" and not name.startswith("_")}
        _print_json({**facts, "rows": rows})
        return
    emit(rows, format)
    if format == Format.table:
        print(f"\n{profile.model} on {profile.gpu} in {profile.precision}, source: {profile.source}")


def _print_json(content: dict[str, Any]) -> None:
    json.dump(plain(content), sys.stdout, indent=2)
    sys.stdout.write("\n")


@app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A step profile file.")],
) -> None:
    """Check a step profile file and put it where the emulator looks before it looks at the bundled ones."""
    from gpuyard.profiles import import_profile

    for path in import_profile(file):
        say(f"{path}: imported")


@app.command()
def fit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV: gpu, model, batch_size, forward_s, backward_s.")],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Write MODEL.yaml for each model.")
    ] = None,
    precision: _Precision = "fp32",
    format: _Format = Format.table,
) -> None:
    """Say how well measured steps predict batch sizes that were not measured; turn them into step profiles.

    Errors are those of rows that were held out: of a long table all but 13 batch sizes, of a short one each in turn.
    """
    from gpuyard.profiles.fitting import assess
    from gpuyard.profiles.measurements import read_measurements

    measured = read_measurements(file)
    fits = [assess(profile) for profile in measured]
    written = _write(measured, out, precision) if out is not None else []
    emit([fit_row(each) for each in fits], format)
    for path in written:
        say(f"{path}: written; 'gpuyard profiles import {path}' puts it to use")


def _write(measured: tuple[StepProfile, ...], folder: Path, precision: str) -> list[Path]:
    from gpuyard.profiles.fitting import thinned
    from gpuyard.profiles.step_files import write_profiles

    return write_profiles([thinned(profile, precision) for profile in measured], folder)
