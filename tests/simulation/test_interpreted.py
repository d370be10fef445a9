"""With NUMBA_DISABLE_JIT=1 nothing is compiled, and every result is the same."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from tests.simulation.small_runs import write_runs

ROOT = Path(__file__).resolve().parents[2]


def interpreted(*arguments: str) -> str:
    """What a program prints that runs without the compiler and without warnings."""
    command = [sys.executable, "-W", "error", *arguments]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_interpreted_runs_have_the_same_bytes(tmp_path: Path) -> None:
    interpreted("-m", "tests.simulation.small_runs", str(tmp_path / "interpreted"))
    for folder in write_runs(tmp_path / "compiled"):
        for table in ("jobs.parquet", "timeline.parquet"):
            same = (tmp_path / "interpreted" / folder.name / table).read_bytes()
            assert (folder / table).read_bytes() == same, f"{folder.name}/{table}"


def test_kernels_are_the_functions_themselves_and_divide_by_zero_without_a_word() -> None:
    program = (
        "import numpy as np\n"
        "from gpuyard.core.kernel import box, inner, kernel\n"
        "def double(boxed): return 2 * boxed.value[0]\n"
        "def part(some): return some[0] / some[1]\n"
        "print(kernel(double)(box((np.arange(3),))).tolist())\n"
        "print(kernel(part)(np.ones(2)), inner(part)(np.arange(1.0, -1, -1)))\n"
    )
    assert interpreted("-c", program) == f"{(2 * np.arange(3)).tolist()}\n1.0 inf\n"
