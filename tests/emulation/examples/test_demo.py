"""`gpuyard demo emulate`: the trends that GPEmu found, from real processes on emulated GPUs."""

import json
import shlex
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def demo() -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuyard", "demo", "emulate", "--format", "json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, check=True)


@pytest.fixture(scope="module")
def here(demo: subprocess.CompletedProcess[str]) -> dict[str, float]:
    return {row["what"]: row["here"] for row in json.loads(demo.stdout)}


def test_a_light_model_uses_every_core_a_heavy_one_only_a_few(here: dict[str, float]) -> None:
    light, heavy = (
        here[f"{model}, 6 cores decode: images/s"] / here[f"{model}, 1 core decodes: images/s"]
        for model in ("AlexNet", "ResNet-50")
    )
    assert light > 3.5
    assert heavy < 0.75 * light


def test_a_light_model_waits_for_the_disk(here: dict[str, float]) -> None:
    light, heavy = (here[f"{model} waits for the disk: % of time"] for model in ("AlexNet", "ResNet-50"))
    assert light > heavy + 10


def test_equal_jobs_get_equal_parts(here: dict[str, float]) -> None:
    rates = [here[f"ResNet-50, {jobs} on one GPU: images/s of each"] for jobs in (1, 2, 3)]
    assert rates[0] == pytest.approx(202, rel=0.05)
    assert [rates[0] / rate for rate in rates] == pytest.approx([1, 2, 3], rel=0.1)


def test_jobs_that_need_different_things_gain_together(here: dict[str, float]) -> None:
    assert 1.25 < here["CPU- and GPU-bound job, one after the other / together"] < 1.75


def test_the_next_three_commands_work(demo: subprocess.CompletedProcess[str]) -> None:
    commands = [shlex.split(line) for line in demo.stderr.split("Try next:\n")[1].splitlines()]
    assert len(commands) == 3
    for program, *args in commands:
        tried = subprocess.run(
            [sys.executable, "-m", program, *args], capture_output=True, text=True, timeout=300, check=False
        )
        assert tried.returncode == 0, tried.stderr
        assert tried.stdout
