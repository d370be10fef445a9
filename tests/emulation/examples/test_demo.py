"""`gpuyard demo emulate`: the trends that GPEmu found, from real processes on emulated GPUs."""

import json
import shlex
import subprocess
import sys
from math import isfinite

import pytest


@pytest.fixture(scope="module")
def demo() -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuyard", "demo", "emulate", "--format", "json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, check=True)


def test_every_trend_is_shown_beside_what_the_study_found(demo: subprocess.CompletedProcess[str]) -> None:
    """What they come to depends on how busy the machine is: that is for `make bench-emulation`."""
    rows = json.loads(demo.stdout)
    assert {row["what"] for row in rows} >= {
        "AlexNet, 6 cores decode: images/s",
        "ResNet-50 waits for the disk: % of time",
        "ResNet-50, 3 on one GPU: images/s of each",
        "CPU- and GPU-bound job, one after the other / together",
    }
    assert all(isfinite(row["here"]) for row in rows)


def test_the_next_three_commands_work(demo: subprocess.CompletedProcess[str]) -> None:
    commands = [shlex.split(line) for line in demo.stderr.split("Try next:\n")[1].splitlines()]
    assert len(commands) == 3
    for program, *args in commands:
        tried = subprocess.run(
            [sys.executable, "-m", program, *args], capture_output=True, text=True, timeout=900, check=False
        )
        assert tried.returncode == 0, tried.stderr
        assert tried.stdout
