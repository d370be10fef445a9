"""Where a program cannot be gated it runs as if there were no gate, and says so once."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest
from tests.native.gate.driver.programs import PREAMBLE, environment, run

from gpuyard.sharing.group import Group

SCRIPT = PREAMBLE + "check(launch()); check(launch()); print(count('launches'), allocate(10**6)[0])"


def says(surroundings: dict[str, str]) -> str:
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=surroundings, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("2 0\n", 0), done.stderr
    return done.stderr


def test_without_a_group_nothing_is_said(still: Path) -> None:
    assert run(still, "check(launch())\nshow(launches=count('launches'))", ungated=True) == {"launches": 1}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("level", 64, "GPUYARD_GATE_LEVEL is no level from -1 to 63"),
        ("level", "high", "GPUYARD_GATE_LEVEL is no level from -1 to 63"),
        ("sync_every", "-1", "GPUYARD_GATE_SYNC_EVERY is no number of launches"),
        ("window", "3x", "GPUYARD_GATE_WINDOW is no number of launches"),
        ("memory", "4GiB", "GPUYARD_GATE_MEMORY is no number of bytes"),
        ("share", "0", "GPUYARD_GATE_SHARE is no part of a GPU, above 0 and at most 1"),
        ("slo", "soon", "GPUYARD_GATE_SLO is no number of seconds"),
    ],
)
def test_settings_that_mean_nothing(still: Path, name: str, value: object, said: str) -> None:
    assert says(environment(still, **{name: value})) == f"gpuyard: this program is not gated: {said}\n"


def test_no_folder_for_the_group(still: Path, tmp_path: Path) -> None:
    surroundings = {**environment(still), "GPUYARD_SHM": str(tmp_path / "nowhere")}
    assert says(surroundings) == "gpuyard: this program is not gated: the file is not there\n"


def test_a_group_of_another_version(still: Path, shared_memory: Path, group: Group) -> None:
    (path,) = shared_memory.iterdir()
    with path.open("r+b") as file:
        file.seek(8)
        file.write(struct.pack("Q", 999))
    assert "another version" in says(environment(still))


def test_a_gpu_that_is_full(still: Path, group: Group) -> None:
    clients = [group.connect("GPU-01010101-0101-0101-0101-010101010101") for _ in range(64)]
    assert says(environment(still)) == "gpuyard: this program is not gated: as many processes use the GPU as can\n"
    assert len(clients) == 64
