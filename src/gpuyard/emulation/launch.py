"""Runs a command on emulated GPUs and reports what it did there."""

from __future__ import annotations

import importlib.util
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuyard.core.errors import MissingExtraError
from gpuyard.emulation import nvml
from gpuyard.emulation.report import combine
from gpuyard.emulation.run_folder import Ending, reserved, save_run
from gpuyard.emulation.session import open_node
from gpuyard.emulation.settings import UNPROFILED, Settings
from gpuyard.profiles.gpus import GpuKind, parse_gpus
from gpuyard.profiles.step_store import find_step_profile
from gpuyard.sharing.commands import find_program, run_command, search_path


@dataclass(frozen=True)
class ProgramOutcome:
    """How a command ended and what it did on its GPUs."""

    exit_code: int
    report: dict[str, Any]
    run: Path | None = None
    """Where the run folder is, if one was wanted."""


def run_program(
    command: Sequence[str], settings: Settings, out: Path | None = None, environment: Mapping[str, str] = os.environ
) -> ProgramOutcome:
    """Run a command whose processes find emulated GPUs; its output and its exit code are its own.

    With `out`, what happened is written to that run folder, however the command ends. The variables that say what is
    emulated are added to `environment`.
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("gpuyard emulate", "torch")
    kinds = parse_gpus(settings.check().gpus)
    if settings.profile not in ("", UNPROFILED):
        find_step_profile(kinds[0], settings.profile)
    program = find_program(command)
    with reserved(out) as place, tempfile.TemporaryDirectory(prefix="gpuyard-") as folder:
        settings = replace(settings, node=settings.node_name, report=folder)
        with _attached(settings, kinds):
            began = time.monotonic()
            end = run_command([program, *command[1:]], _environment(settings, environment))
            wall = time.monotonic() - began
        report = combine(Path(folder), settings.gpus, [kind.key for kind in kinds], wall)
        ending = Ending(end.exit_code, end.asked_to_end, end.pid)
        run = None if place is None else save_run(place, command, settings, ending, report, Path(folder)).path
    return ProgramOutcome(end.exit_code, report, run)


@contextmanager
def _attached(settings: Settings, kinds: tuple[GpuKind, ...]) -> Iterator[None]:
    """Keep the emulated machine while the command runs, so that its processes find the same one."""
    node = open_node(settings, kinds) if settings.clock == "real" else None
    try:
        yield
    finally:
        if node is not None:
            node.close()


def _environment(settings: Settings, others: Mapping[str, str]) -> dict[str, str]:
    environment = {**others, **settings.environment(), "PATH": search_path()}
    environment.update(nvml.search_path(environment))
    return environment


def summary(report: dict[str, Any]) -> str:
    """Say in one line what a command did on its GPUs."""
    if not report["processes"]:
        return (
            "no process of the command used an emulated GPU by torch; does its Python have torch and gpuyard "
            "installed, and does it ask for 'cuda'? (Programs of the CUDA driver are not counted here)"
        )
    error = report["expected_error"]
    accuracy = "" if error is None else f", expect an error of about {error:.1%}"
    return (
        f"{report['steps']} steps on {report['gpus']}: {report['device_seconds']:.2f} s of GPU time in "
        f"{report['emulated_seconds']:.2f} s ({report['wall_seconds']:.2f} s here), "
        f"peak memory {report['peak_memory_bytes'] / 2**20:,.0f} MiB; "
        f"durations from {report['duration_model']}{accuracy}"
    )
