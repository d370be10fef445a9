"""gpuyard profiles: look at profiles, and bring one's own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuyard.cli.output import Format, emit, plain, say

if TYPE_CHECKING:
    from gpuyard.profiles.collection import Zoo
    from gpuyard.profiles.fitting import Fit
    from gpuyard.profiles.model import ModelProfile
    from gpuyard.profiles.steps import StepPoint, StepProfile

app = typer.Typer(
    help="Look at profiles, and bring one's own.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)

_Format = Annotated[Format, typer.Option(help="How to print it.")]
_Precision = Annotated[str, typer.Option(metavar="NAME", help="fp32, tf32, fp16, bf16, …")]


@app.command("list")
def list_profiles(*, format: _Format = Format.table) -> None:
    """List every model of which anything is known, and what.

    Throughput says what CPUs and memory beside a GPU are worth, and is what simulations need; steps say how long a step
    takes on a GPU, and are what the emulated GPU needs.
    """
    from gpuyard.profiles import load_zoo

    zoo = load_zoo()
    emit([_model_row(zoo, model) for model in zoo.models], format)


@app.command()
def show(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Any of its names; 'gpuyard profiles list' has all.")],
    *,
    gpu: Annotated[
        str | None, typer.Option(metavar="KIND", help="Show its steps on this GPU kind; 'gpuyard gpus' has them all.")
    ] = None,
    precision: _Precision = "fp32",
    format: _Format = Format.table,
) -> None:
    """Show what is known of a model: its parts, and its speed on every GPU kind; or its steps on one, by batch size."""
    if gpu is None:
        _show_model(model, format)
    else:
        _show_steps(gpu, model, precision, format)


def _show_model(name: str, format: Format) -> None:
    from gpuyard.profiles import gpu_kinds, load_zoo

    zoo = load_zoo()
    profile = zoo.profile(name)
    facts, rows = _facts(zoo, profile), [_speed_row(profile, kind.key) for kind in gpu_kinds()]
    if format == Format.json:
        parts = {name: getattr(profile, name) for name in ("latency", "memory", "slowdown")}
        grid = {name: getattr(profile, name) for name in ("cpu_grid", "memory_grid", "throughput")}
        grids = {name: values.tolist() for name, values in grid.items()}
        _print_json({**facts, **grids, **{name: _as_dicts(part) for name, part in parts.items()}, "rows": rows})
        return
    emit(rows, format)
    if format == Format.table:
        print()
        for fact, value in facts.items():
            print(f"{fact:<14} {value}")


def _show_steps(gpu: str, model: str, precision: str, format: Format) -> None:
    from gpuyard.profiles import find_step_profile

    profile = find_step_profile(gpu, model, precision=precision)
    rows = [_point_row(point) for point in profile.points]
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
    emit([_fit_row(each) for each in fits], format)
    for path in written:
        say(f"{path}: written; 'gpuyard profiles import {path}' puts it to use")


def _write(measured: tuple[StepProfile, ...], folder: Path, precision: str) -> list[Path]:
    from gpuyard.profiles.fitting import thinned
    from gpuyard.profiles.step_files import write_profiles

    return write_profiles([thinned(profile, precision) for profile in measured], folder)


def _model_row(zoo: Zoo, model: str) -> dict[str, Any]:
    profile, steps = zoo.profile(model), zoo.steps(model)
    return {
        "model": profile.name,
        "also": list(profile.aliases),
        "task": profile.task,
        "throughput": f"on {profile.gpu_type}" if profile.has_throughput else "",
        "steps": list(dict.fromkeys(each.gpu for each in steps)),
        "precisions": list(dict.fromkeys(each.precision for each in steps)),
        "latency": [each.gpu for each in profile.latency],
        "memory": "by batch" if _has_memory(profile, steps) else "",
        "slowdown": [each.beside for each in profile.slowdown],
    }


def _facts(zoo: Zoo, profile: ModelProfile) -> dict[str, Any]:
    """Return what is known of a model, a line for each part."""
    return {
        "model": profile.name,
        "also": ", ".join(profile.aliases) or "-",
        "title": profile.title,
        "throughput": _throughput_text(profile),
        "steps": _steps_text(zoo.steps(profile.name)),
        "latency": ", ".join(f"on {each.gpu}" for each in profile.latency) or "not known",
        "gpu_memory": "by batch" if _has_memory(profile, zoo.steps(profile.name)) else "not known",
        "slowdown": ", ".join(f"{each.factor:g} beside {each.beside}" for each in profile.slowdown) or "not known",
    }


def _throughput_text(profile: ModelProfile) -> str:
    if not profile.has_throughput:
        return "not known: it cannot be simulated"
    cpus, memory, storage, speed = profile.best()
    best = f"{speed:g} at best, with {cpus:g} CPUs, {memory:g} GB and {storage:g} MB/s per GPU"
    return f"{profile.iteration_s:g} s per iteration at 1.0; {best}; on {profile.gpu_type}; source: {profile.source}"


def _steps_text(steps: tuple[StepProfile, ...]) -> str:
    groups: dict[tuple[str, str], list[str]] = {}
    for each in steps:
        groups.setdefault((each.precision, each.source), []).append(each.gpu)
    texts = (f"{precision} on {', '.join(gpus)}; source: {source}" for (precision, source), gpus in groups.items())
    return " | ".join(texts) or "not known"


def _has_memory(profile: ModelProfile, steps: tuple[StepProfile, ...]) -> bool:
    return profile.memory is not None or any(point.peak_bytes for each in steps for point in each.points)


def _speed_row(profile: ModelProfile, gpu: str) -> dict[str, Any]:
    speed = profile.speed_on(gpu)
    return {
        "gpu": gpu,
        "speed": speed.factor,
        "known": speed.origin,
        "error_pct": speed.expected_error * 100 if speed.estimated else None,
        "source": speed.source,
    }


def _as_dicts(part: object) -> object:
    """Return a part of a profile as what JSON has."""
    if isinstance(part, tuple):
        return [each._asdict() if hasattr(each, "_asdict") else vars(each) for each in part]
    return None if part is None else vars(part)


def _point_row(point: StepPoint) -> dict[str, Any]:
    step_s = point.forward_s + point.backward_s
    return {
        "batch": point.batch,
        "forward_ms": point.forward_s * 1e3,
        "backward_ms": point.backward_s * 1e3,
        "step_ms": step_s * 1e3,
        "images_per_s": point.batch / step_s,
        "peak_mib": None if point.peak_bytes is None else point.peak_bytes / 2**20,
        "time": "measured" if point.measured else "predicted",
        "memory": None if point.peak_bytes is None else "measured" if point.memory_measured else "predicted",
    }


def _fit_row(fit: Fit) -> dict[str, Any]:
    percent = {f"{name}_error_pct": None if error is None else error * 100 for name, error in fit.errors.items()}
    return {"gpu": fit.gpu, "model": fit.model, "points": fit.points, "held_out": fit.held_out, **percent}
