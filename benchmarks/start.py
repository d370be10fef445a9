"""How long a user waits for `gpuyard --help`, and a program for `import gpuyard`."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.limits import Figure

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import gpuyard": ["-c", "import gpuyard"],
    "gpuyard --help": [str(Path(sys.executable).parent / "gpuyard"), "--help"],
}


def run(repeats: int = 15) -> list[Figure]:
    """Start each program several times, in turn; the least wall time counts."""
    best = dict.fromkeys(COMMANDS, float("inf"))
    for _ in range(repeats):
        for name, arguments in COMMANDS.items():
            best[name] = min(best[name], _wall_seconds([sys.executable, *arguments]))
    bare = best["python -c pass"]
    return [
        Figure("start: gpuyard --help", best["gpuyard --help"], "s", most=0.2, portable=False),
        Figure("start: gpuyard --help over bare Python", best["gpuyard --help"] / bare, "x"),
        Figure("start: import gpuyard over bare Python", best["import gpuyard"] / bare, "x", most=4),
    ]


def _wall_seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began
