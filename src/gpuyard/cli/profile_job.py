"""`gpuyard profile job`: measure a training command at a few points and compute the rest."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuyard.cli.output import Format, emit, say
from gpuyard.cli.progress import Progress, clock_face

if TYPE_CHECKING:
    from gpuyard.profiling.job import JobProfile
    from gpuyard.profiling.kept_points import KeptPoints
    from gpuyard.profiling.optimistic import Measurement

BUSY = 0.25
"""A spread above it says more about the machine than about the job."""


def profile_job(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND…", help="A training command that uses `steps`; {cpus} in it becomes the number of CPUs."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE.yaml", help="Write the profile, or add to it.")],
    name: Annotated[str, typer.Option(help="Name of the model; by default that of the script.")] = "",
    cpus: Annotated[
        int, typer.Option(min=0, max=1024, help="Most CPUs per GPU, 3 or more; by default those of this machine.")
    ] = 0,
    steps: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Steps that are timed together, an epoch at most.")
    ] = 50,
    repeats: Annotated[int, typer.Option(min=1, max=1000, help="How often, at each point, after a warm-up.")] = 3,
    timeout: Annotated[str, typer.Option(metavar="TIME", help="What one point may take.")] = "10m",
    data: Annotated[
        str, typer.Option("--data", metavar="SIZE", help="Size of the real data, if the command reads a sample of it.")
    ] = "",
    gpu_type: Annotated[str, typer.Option(help="The GPU type that the job runs on.")] = "V100",
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE.png|.svg", help="Draw its speed by CPUs and memory.")
    ] = None,
    synergy: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write Synergy's profile.json and PERF files too.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what an interrupted call has kept.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.table,
) -> None:
    """Measure a job at a few points, compute its speed at all CPUs and memory, and write a profile.

    Each measured point is kept at once: after an interruption the same command goes on from there.
    """
    from gpuyard.core.arguments import check_name
    from gpuyard.profiles.profile_file import ProfileFile
    from gpuyard.profiling.job import JobProfile, cpu_points
    from gpuyard.profiling.kept_points import KeptPoints
    from gpuyard.profiling.point import PointRunner

    check_name(gpu_type, "gpu_type")
    name = name or _script_name(command)
    file = ProfileFile(out, name)
    profile = JobProfile(name, cpu_points(_most_cpus(cpus)), _gigabytes(data))
    runner = PointRunner(tuple(command), steps, repeats, _timeout(timeout))
    _check_targets(picture, synergy)
    settings = {"command": list(command), "folder": str(Path.cwd()), "steps": steps, "repeats": repeats}
    kept = KeptPoints.beside(out, settings, fresh=fresh)
    kept.save()  # whether anything can be written there is known before the first step
    with Progress(profile.most_points, "points", quiet=quiet) as progress:
        told = _Told(profile, kept, progress, _silent if quiet else say)
        try:
            profile.measure(kept.measuring(replace(runner, watch=told.part)), told.point)
        except KeyboardInterrupt:
            many = f"{len(kept.points)} of at most {profile.most_points} points are measured and kept"
            raise KeyboardInterrupt(f"{many}; the same command goes on from there") from None
        finally:
            if not kept.points:
                kept.remove()
    file.write(profile.entry(gpu_type))
    _write_beside(profile, out, picture, synergy)
    kept.remove()
    say(f"written to {out}; 'gpuyard simulate --profiles {out}' reads it")
    _show(profile, format)


def _silent(_: str) -> None:
    """Say nothing."""


class _Told:
    """Says what has been measured, and how long the rest can take."""

    def __init__(self, profile: JobProfile, kept: KeptPoints, progress: Progress, say: Callable[[str], None]) -> None:
        self._profile, self._progress, self._say = profile, progress, say
        self._before, self._done, self._since = len(kept.points), 0, time.monotonic()

    def part(self, done: float) -> None:
        """This part of the present point is done."""
        self._progress.update(self._done + done)

    def point(self, cpus: int | None, found: Measurement) -> None:
        """A point is done: how long it took says what the rest takes, if the rate falls with the CPUs."""
        from gpuyard.profiling.job import SYNTHETIC, cpus_text, spread_text
        from gpuyard.profiling.optimistic import sweep_points

        took_s, self._since = time.monotonic() - self._since, time.monotonic()
        self._done += 1
        self._progress.clear()
        text = f"{SYNTHETIC if cpus is None else cpus_text(cpus)}: {1e3 * found.typical_s:.4g} ms a step"
        left = self._profile.most_points - self._done
        if self._done <= self._before:
            text += ", kept from before"
        elif cpus is not None and left:
            left_s = took_s + sum(took_s * cpus / fewer for fewer in sweep_points(cpus // 2))
            text += f"; {left} more point{'s' * (left > 1)} at most, within {clock_face(left_s)}"
        self._say(text.replace(" a step", f" a step{spread_text(found.spread)}", 1))
        if found.spread > BUSY:
            say(
                "  that is a large spread: something else keeps this machine busy, or steps differ; more --repeats help"
            )
        self._progress.update(self._done)


def _script_name(command: list[str]) -> str:
    """The script's name, or the program's."""
    scripts = [word for word in command if word.endswith(".py")]
    return Path((scripts or command)[0]).stem


def _most_cpus(asked: int) -> int:
    from gpuyard.core.errors import InputError

    here = len(os.sched_getaffinity(0))
    if 0 < asked < 3:
        raise InputError("must be 3 or more: speeds are relative to that at 3 CPUs", field="cpus", value=asked)
    most = asked or max(here, 3)
    if most > here:
        say(f"this machine has {here} CPUs: beyond them the job is told a larger number, and gets no more")
    return most


def _gigabytes(text: str) -> float | None:
    from gpuyard.core.errors import InputError
    from gpuyard.core.units import GIGABYTES, amount

    found = amount(text, GIGABYTES, "data") if text else None
    if found == 0:
        raise InputError("must be above 0", field="data", value=text)
    return found


def _timeout(text: str) -> float:
    from gpuyard.core.errors import InputError
    from gpuyard.core.units import seconds

    value = seconds(text, "timeout")
    if not 1 <= value <= 86400:
        raise InputError("must be from 1 s to a day", field="timeout", value=text)
    return value


def _check_targets(picture: Path | None, synergy: Path | None) -> None:
    from gpuyard.core.errors import InputError
    from gpuyard.reports.surface_chart import check_picture

    if picture is not None:
        check_picture(picture)
    if synergy is not None and ((synergy.exists() and not synergy.is_dir()) or not synergy.resolve().parent.is_dir()):
        raise InputError("must be a folder, or the name of one to make", field="synergy", value=str(synergy))


def _write_beside(profile: JobProfile, out: Path, picture: Path | None, synergy: Path | None) -> None:
    from gpuyard.profiles import load_zoo
    from gpuyard.profiles.step_files import write_whole
    from gpuyard.profiles.synergy_files import Perf, perf_name
    from gpuyard.reports.surface_chart import draw_surface

    if picture is not None:
        draw_surface(load_zoo([out]).profile(profile.name), picture)
    if synergy is not None:
        write_whole(synergy / "profile.json", profile.as_synergy().dump())
        for cpus, found in profile.by_cpus.items():
            perf = Perf(found.typical_s, found.epoch_steps, 0)
            write_whole(synergy / perf_name(profile.name, cpus), perf.dump())


def _show(profile: JobProfile, format: Format) -> None:
    if format != Format.table:
        emit(profile.rows(), format)
        return
    table: dict[int, dict[str, Any]] = {}
    for row in profile.rows():
        table.setdefault(row["cpus"], {"cpus": row["cpus"]})[f"{row['cached_pct']:.4g}%"] = row["step_ms"]
    emit(list(table.values()), format)
    print("\nms a step, by CPUs and by how much of the data is cached")
    for fact, value in profile.facts().items():
        print(f"{fact:<15} {value}")
