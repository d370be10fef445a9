"""Runs the programs of this folder on emulated GPUs and reads what they print."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import IO, Any

from gpuyard.core.errors import GpuyardError, MissingExtraError
from gpuyard.emulation.session import open_node
from gpuyard.emulation.settings import Settings
from gpuyard.profiles.gpus import parse_gpus

PROGRAMS = Path(__file__).with_name("programs")
PATIENCE_S = 300.0
"""Longer than any program here takes, even on a machine that does much else."""


class Program:
    """A program while it runs on emulated GPUs; leaving the `with` block ends it."""

    def __init__(self, name: str, *options: object, gpus: str, node: str = "", speed: float = 1.0) -> None:
        check_packages()
        command = [sys.executable, str(PROGRAMS / f"{name}.py"), *map(str, options)]
        # A name of our own: programs that others run on such GPUs are not to be met.
        settings = Settings(gpus=gpus, node=node or own_node(name), speed=speed)
        self.name = name
        self.lines: list[str] = []
        self._machine = open_node(settings, parse_gpus(gpus))  # held here, so that it goes when a program is ended
        self._errors: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed by __exit__
        self._process = subprocess.Popen(  # noqa: S603 - a program of this folder
            command,
            env=os.environ | settings.environment(),
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the program if it still runs."""
        self._process.terminate()
        self._process.wait()
        self._reader.join()
        self._errors.close()
        self._machine.close()

    def wait_for_lines(self, count: int) -> None:
        """Return when the program has printed so many lines."""
        self._wait(lambda: len(self.lines) >= count)

    def results(self) -> list[dict[str, Any]]:
        """Return what the program has printed by its end, a JSON object on each line."""
        self._wait(lambda: self._process.poll() == 0)
        self._reader.join()
        return [json.loads(line) for line in self.lines]

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as printed:
            self.lines.extend(printed)

    def _wait(self, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not reached():
            if self._process.poll() is not None and not reached():
                raise GpuyardError(f"{self.name} ended too early: {self._last_words()}")
            if time.monotonic() > deadline:
                raise GpuyardError(f"{self.name} is not done after {PATIENCE_S:g} s")
            time.sleep(0.01)

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.returncode}"


def own_node(name: str) -> str:
    """Return the name of an emulated machine that nobody else uses."""
    return f"{name}-{os.getpid()}-{time.monotonic_ns()}"


def check_packages() -> None:
    """Say what to install if it is not there."""
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("training on emulated GPUs", "torch")
    if importlib.util.find_spec("torchvision") is None:
        raise GpuyardError("the models are torchvision's, which is not installed: pip install torchvision")
