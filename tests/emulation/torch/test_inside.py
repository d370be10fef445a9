"""Runs the tests of the folder `inside` in a process with two emulated V100s on a virtual clock: nothing waits."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.emulation.torch.conftest import emulated

INSIDE = Path(__file__).parent / "inside"


def test_everything_inside() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", "--tb=short", str(INSIDE)],
        env=emulated(gpus="2xV100", clock="virtual"),
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-4000:]
