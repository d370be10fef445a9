"""Runs a command on emulated GPUs and reports what it did there."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuyard.core.errors import InputError, MissingExtraError
from gpuyard.emulation import nvml
from gpuyard.emulation.report import combine
from gpuyard.emulation.run_folder import Ending, reserved, save_run
from gpuyard.emulation.session import open_node
from gpuyard.emulation.settings import UNPROFILED, Settings
from gpuyard.profiles.gpus import GpuKind, parse_gpus
from gpuyard.profiles.step_store import find_step_profile


@dataclass(frozen=True)
class ProgramOutcome:
    """How a command ended and what it did on its GPUs."""

    exit_code: int
    report: dict[str, Any]
    run: Path | None = None
    """Where the run folder is, if one was wanted."""


def run_program(command: Sequence[str], settings: Settings, out: Path | None = None) -> ProgramOutcome:
    """Run a command whose processes find emulated GPUs; its output and its exit code are its own.

    With `out`, what happened is written to that run folder, however the command ends.
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("gpuyard emulate", "torch")
    kinds = parse_gpus(settings.check().gpus)
    if settings.profile not in ("", UNPROFILED):
        find_step_profile(kinds[0], settings.profile)
    program = _find(command)
    with reserved(out) as place, tempfile.TemporaryDirectory(prefix="gpuyard-") as folder:
        settings = replace(settings, node=settings.node_name, report=folder)
        with _attached(settings, kinds):
            began = time.monotonic()
            ending = _run([program, *command[1:]], _environment(settings))
            wall = time.monotonic() - began
        report = combine(Path(folder), settings.gpus, [kind.key for kind in kinds], wall)
        run = None if place is None else save_run(place, command, settings, ending, report, Path(folder)).path
    assert ending.exit_code is not None
    return ProgramOutcome(ending.exit_code, report, run)


@contextmanager
def _attached(settings: Settings, kinds: tuple[GpuKind, ...]) -> Iterator[None]:
    """Keep the emulated machine while the command runs, so that its processes find the same one."""
    node = open_node(settings, kinds) if settings.clock == "real" else None
    try:
        yield
    finally:
        if node is not None:
            node.close()


def _find(command: Sequence[str]) -> str:
    """Return the program to run; `python` is the one that gpuyard runs under unless another comes first in PATH."""
    found = shutil.which(command[0], path=_search_path())
    if found is None:
        raise InputError("is not a program that can be run", field="command", value=command[0])
    return found


def _search_path() -> str:
    here = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", os.defpath)
    return path if here in path.split(os.pathsep) else here + os.pathsep + path


def _environment(settings: Settings) -> dict[str, str]:
    environment = {**os.environ, **settings.environment(), "PATH": _search_path()}
    environment.update(nvml.search_path(environment))
    return environment


def _run(command: list[str], environment: dict[str, str]) -> Ending:
    """Run to the end, whatever happens on the way: the command decides what to do about signals."""
    started: list[subprocess.Popen[bytes]] = []
    with _passing_on(started) as requests:
        process = subprocess.Popen(command, env=environment)  # noqa: S603 - running the user's command is the purpose
        started.append(process)
        try:
            if signal.SIGTERM in requests:  # it came while the command was being started
                process.send_signal(signal.SIGTERM)
            code = process.wait()
        except BaseException:
            process.send_signal(signal.SIGTERM)
            raise
    return Ending(128 - code if code < 0 else code, bool(requests), process.pid)


@contextmanager
def _passing_on(started: Sequence[subprocess.Popen[bytes]]) -> Iterator[list[int]]:
    """Hand a request to end, such as a job's time limit, on to the command; an interrupt reaches it by itself.

    The interrupt must not raise here either: an exception while the command is waited for may lose its exit code.
    Yields the requests that came.
    """
    requests: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield requests  # only the main thread is told
        return

    def pass_on(number: int, _: object) -> None:
        requests.append(number)
        for process in started if number == signal.SIGTERM else ():
            process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def summary(report: dict[str, Any]) -> str:
    """Say in one line what a command did on its GPUs."""
    if not report["processes"]:
        return (
            "no process of the command used an emulated GPU; does its Python have torch and gpuyard installed, "
            "and does it ask for 'cuda'?"
        )
    error = report["expected_error"]
    accuracy = "" if error is None else f", expect an error of about {error:.1%}"
    return (
        f"{report['steps']} steps on {report['gpus']}: {report['device_seconds']:.2f} s of GPU time in "
        f"{report['emulated_seconds']:.2f} s ({report['wall_seconds']:.2f} s here), "
        f"peak memory {report['peak_memory_bytes'] / 2**20:,.0f} MiB; "
        f"durations from {report['duration_model']}{accuracy}"
    )
