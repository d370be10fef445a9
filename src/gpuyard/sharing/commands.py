"""Runs a user's command to its end: its output, its exit code and what it makes of signals are its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpuyard.core.errors import InputError


@dataclass(frozen=True)
class CommandEnd:
    """How a command ended."""

    exit_code: int
    asked_to_end: bool
    pid: int


def search_path() -> str:
    """Return where programs are looked for: `python` is the one that gpuyard runs under unless another comes first."""
    here = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", os.defpath)
    return path if here in path.split(os.pathsep) else here + os.pathsep + path


def find_program(command: Sequence[str]) -> str:
    """Return the program to run."""
    found = shutil.which(command[0], path=search_path())
    if found is None:
        raise InputError("is not a program that can be run", field="command", value=command[0])
    return found


def run_command(command: Sequence[str], environment: Mapping[str, str]) -> CommandEnd:
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
    return CommandEnd(128 - code if code < 0 else code, bool(requests), process.pid)


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
