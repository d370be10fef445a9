"""How benchmark programs are run on emulated GPUs: as a user would, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from gpuyard.emulation.settings import Settings


def start(module: str, *arguments: object, **settings: Any) -> subprocess.Popen[str]:
    """Start a module of this package on emulated GPUs."""
    environment = {**os.environ, **Settings(**settings).environment()}
    command = [sys.executable, "-m", f"benchmarks.emulated.{module}", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def result(process: subprocess.Popen[str]) -> Any:
    """Wait for a program and return the JSON it printed."""
    printed, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{process.args!r} ended with exit code {process.returncode}")
    return json.loads(printed.splitlines()[-1])
