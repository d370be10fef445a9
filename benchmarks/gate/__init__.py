"""What the gate costs a launch: a program in C without it, with it loaded, and with it on, in turn."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from benchmarks.limits import Figure
from gpuyard.native import find

HERE = Path(__file__).parent
ABI = HERE.parents[1] / "native" / "cuda"
TURNS = 5


def run() -> list[Figure]:
    """Measure in turns on a driver that does nothing, so that every nanosecond is the gate's."""
    with tempfile.TemporaryDirectory() as folder:
        program = _compile(Path(folder))
        plain = {**os.environ, "LD_LIBRARY_PATH": folder, "GPUYARD_SHM": folder}
        loaded = {**plain, "LD_PRELOAD": str(find("libgpuyard-gate.so"))}
        on = {**loaded, "GPUYARD_GATE": "benchmark"}
        best = [float("inf")] * 3
        for _ in range(TURNS):
            found = [_microseconds(program, environment) for environment in (plain, loaded, on)]
            best = list(map(min, best, found))
    return [
        Figure("gate: a launch on a driver that does nothing", best[0], "µs", portable=False),
        Figure("gate: more with the gate loaded and no group", best[1] - best[0], "µs", most=0.1, portable=False),
        Figure("gate: more with the gate on", best[2] - best[0], "µs", most=0.1, portable=False),
    ]


def _compile(folder: Path) -> Path:
    driver, program = folder / "libcuda.so.1", folder / "launches"
    compiler = ["cc", "-std=c11", "-O2", f"-I{ABI}"]
    shared = ["-fPIC", "-shared", "-Wl,-soname,libcuda.so.1"]
    subprocess.run([*compiler, *shared, str(HERE / "empty_driver.c"), "-o", str(driver)], check=True)
    subprocess.run([*compiler, str(HERE / "launches.c"), str(driver), "-o", str(program)], check=True)
    return program


def _microseconds(program: Path, environment: dict[str, str]) -> float:
    return float(subprocess.run([program], env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout)
