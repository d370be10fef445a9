"""`gpuyard profile`: make a profile of a program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpuyard.cli.output import Format, emit, say
from gpuyard.cli.profile_job import profile_job

app = typer.Typer(
    help="Measure a program, and write a profile.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)


@app.callback()
def _group() -> None:
    """Measure a program, and write a profile."""


@app.command("torch", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def profile_torch(
    script: Annotated[
        list[str], typer.Argument(metavar="SCRIPT [ARGS]…", help="A training script, with its arguments.")
    ],
    gpu: Annotated[
        str, typer.Option(metavar="KIND", help="Predict for this GPU kind even if a real GPU is here.")
    ] = "",
    name: Annotated[str, typer.Option(help="Name of the model; by default that of its class.")] = "",
    out: Annotated[Path | None, typer.Option(metavar="FILE.yaml", help="Write the profile, or add to it.")] = None,
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.table,
) -> None:
    """Measure a training script on the GPU that is here; without one, predict its steps and say so."""
    from gpuyard.profiles.step_files import dump_steps, parse_steps, write_whole
    from gpuyard.profiling.program import has_gpu, merged, record

    kind = gpu or (None if has_gpu() else "A100")
    if kind is not None:
        say(
            f"no GPU is measured: steps are predicted for {kind} from costs of operations"
            + ("" if gpu else " (--gpu KIND)")
        )
    profile = record(script, kind, name or None)
    rows = [
        {
            "model": profile.model,
            "gpu": profile.gpu,
            "precision": profile.precision,
            "batch": point.batch,
            "forward_ms": point.forward_s * 1e3,
            "backward_ms": point.backward_s * 1e3,
            "peak_mib": (point.peak_bytes or 0) / 2**20,
            "origin": "measured" if point.measured else "predicted",
        }
        for point in profile.points
    ]
    if out is not None:
        old = parse_steps(out.read_text(encoding="utf-8"), str(out)) if out.exists() else ()
        write_whole(out, dump_steps(merged(old, profile)))
        say(f"written to {out}; 'gpuyard profiles import {out}' lets emulation use it")
    emit(rows, format)


app.command("job", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})(profile_job)


@app.command("synergy")
def profile_synergy(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="A profile.json, or the PERF_<job>_cpu_<CPUs>.txt of a sweep.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE.yaml", help="Write the profile, or add to it.")],
    name: Annotated[str, typer.Option(help="Name of the model; by default that of the job.")] = "",
) -> None:
    """Turn what Synergy's offline profiler wrote into a profile file; `--profiles` reads a profile.json as it is."""
    from gpuyard.profiles.json_files import parse_json
    from gpuyard.profiles.profile_file import ProfileFile
    from gpuyard.profiles.reading import read_text
    from gpuyard.profiles.synergy_files import job_name, of_perf_files, parse_synergy

    texts = [read_text(file, "file of Synergy's profiler") for file in files]
    if len(files) == 1 and files[0].suffix == ".json":
        job, found = job_name(files[0]), parse_synergy(parse_json(texts[0], files[0]), files[0])
    else:
        job, found = of_perf_files(files, texts)
    ProfileFile(out, name or job).write(found.entry())
    say(f"written to {out}; 'gpuyard simulate --profiles {out}' reads it")
