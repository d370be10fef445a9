"""gpuyard profiles: look at profiles, and bring one's own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuyard.cli.output import Format, emit, plain, say

if TYPE_CHECKING:
    from gpuyard.profiles.fitting import Fit
    from gpuyard.profiles.steps import StepPoint, StepProfile

app = typer.Typer(
    help="Look at profiles, and bring one's own.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)

_Format = Annotated[Format, typer.Option(help="How to print it.")]
_Precision = Annotated[str, typer.Option(metavar="NAME", help="fp32, tf32, fp16, bf16, …")]


@app.command("list")
def list_profiles(*, format: _Format = Format.table) -> None:
    """List every model with a profile.

    Step profiles say how long a step takes on a GPU, throughput profiles what CPUs and memory beside it are worth.
    """
    from gpuyard.profiles import load_zoo
    from gpuyard.profiles.step_store import profiles_of, step_models

    rows = [row for model in step_models() for row in _step_rows(profiles_of(model))]
    zoo = load_zoo()
    rows += [
        {"kind": "throughput", "model": name, "gpus": "any", "source": zoo.profile(name).source} for name in zoo.names
    ]
    emit(rows, format, columns=["kind", "model", "precision", "gpus", "batch_sizes", "source"])


@app.command()
def show(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Its name; 'gpuyard profiles list' has them all.")],
    *,
    gpu: Annotated[str, typer.Option(metavar="KIND", help="A GPU kind; 'gpuyard gpus' has them all.")],
    precision: _Precision = "fp32",
    format: _Format = Format.table,
) -> None:
    """Show how long a model's steps take on a GPU, by batch size."""
    from gpuyard.profiles import find_step_profile

    profile = find_step_profile(gpu, model, precision=precision)
    rows = [_point_row(point) for point in profile.points]
    if format == Format.json:
        facts = {name: value for name, value in vars(profile).items() if name != "points" and not name.startswith("_")}
        json.dump({**plain(facts), "rows": plain(rows)}, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    emit(rows, format)
    if format == Format.table:
        print(f"\n{profile.model} on {profile.gpu} in {profile.precision}, source: {profile.source}")


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


def _step_rows(profiles: tuple[StepProfile, ...]) -> list[dict[str, Any]]:
    """Return a row for each precision and source of one model."""
    kinds = dict.fromkeys((profile.precision, profile.source) for profile in profiles)
    rows = []
    for precision, source in kinds:
        group = [profile for profile in profiles if (profile.precision, profile.source) == (precision, source)]
        rows.append(
            {
                "kind": "step",
                "model": group[0].model,
                "precision": precision,
                "gpus": [profile.gpu for profile in group],
                "batch_sizes": max(len(profile.points) for profile in group),
                "source": source,
            }
        )
    return rows


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
