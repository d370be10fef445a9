"""What happened on emulated GPUs as a run folder, which `gpuyard report` and `gpuyard compare` read."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuyard._version import __version__
from gpuyard.emulation.report import STEP_FILE
from gpuyard.emulation.settings import Settings
from gpuyard.emulation.step_times import read_step_times

if TYPE_CHECKING:
    from gpuyard.results import Reservation, Run


@dataclass(frozen=True)
class Ending:
    """How a command came to its end."""

    exit_code: int | None
    """None: nobody knows, or it goes on."""
    interrupted: bool = False
    """Whether it was told to end, by Ctrl-C or by whoever started it."""
    pid: int = 0
    """The process whose exit code it is; the others' are not known."""


@contextmanager
def reserved(out: Path | str | None) -> Iterator[Reservation | None]:
    """Keep the name of a run folder, if one is wanted, before anything is run."""
    if out is None:
        yield None
        return
    from gpuyard.results import reserve

    with reserve(out) as place:
        yield place


def save_run(
    place: Reservation, command: Sequence[str], settings: Settings, ending: Ending, report: dict[str, Any], parts: Path
) -> Run:
    """Write the run folder; `report` is what the processes said together, `parts` the folder where each said it."""
    import polars as pl

    from gpuyard.results import TABLES, Run, summarise_programs

    processes = report["processes"]
    tables = {"programs": pl.DataFrame(_programs(processes, ending), TABLES["programs"].columns)}
    times = [read_step_times(parts / f"{part['pid']}{STEP_FILE}") for part in processes]
    if any(len(each) > 1 for each in times):
        tables["steps"] = pl.DataFrame(list(_steps(times)), TABLES["steps"].columns, orient="row")
    info = {
        "world": "emulated",
        "version": __version__,
        "command": list(command),
        "gpus": settings.gpus,
        "seed": settings.seed,
        "exit_code": ending.exit_code,
        "interrupted": ending.interrupted,
        "options": {name: value for name, value in asdict(settings).items() if name not in ("gpus", "seed", "report")},
        "notices": [notice for part in processes for notice in part["notices"]],
        "machine": {"python": platform.python_version(), "system": platform.platform()},
        "timing": {"wall_seconds": report["wall_seconds"]},
    }
    return Run(info, tables, summarise_programs(tables["programs"], tables.get("steps"))).save(place)


def _programs(processes: Iterable[dict[str, Any]], ending: Ending) -> list[dict[str, Any]]:
    return [
        {
            "program": number,
            "command": part["command"],
            "gpu_ids": part["gpu_ids"],
            "gpu_kinds": part["gpu_kinds"],
            "wall_s": part["wall_seconds"],
            "emulated_s": part["emulated_seconds"],
            "gpu_s": part["device_seconds"],
            "waited_s": part["waited_seconds"],
            "steps": part["steps"],
            "kernels": part["kernels"],
            "peak_memory_bytes": part["peak_memory_bytes"],
            "peak_reserved_bytes": part["peak_reserved_bytes"],
            "durations_from": max(part["duration_models"], key=part["duration_models"].__getitem__),
            "expected_error": part["expected_error"],
            "exit_code": ending.exit_code if part["pid"] == ending.pid else 1 if part["ended_by"] else None,
        }
        for number, part in enumerate(processes)
    ]


def _steps(times: Iterable[Sequence[float]]) -> Iterator[tuple[int, int, float, float]]:
    for program, boundaries in enumerate(times):
        for step, (start, end) in enumerate(pairwise(boundaries)):
            yield program, step, start, end
