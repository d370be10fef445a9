"""Programs that start their ranks themselves, and use gloo for GPU tensors."""

from pathlib import Path

import pytest

from gpuyard.emulation.collectives import HOST_LINK, seconds

from .conftest import SCRIPTS, run


def test_a_program_spawns_its_ranks(tmp_path: Path) -> None:
    found = run(tmp_path, str(SCRIPTS / "spawned.py"), clock="device")
    assert [rank["loss"] for rank in found] == [0.5, 0.5]
    assert [rank["on host"] for rank in found] == [[1], [1]]
    assert [rank["backend"] for rank in found] == ["gloo"] * 2
    taken = min(rank["all_reduce ms"] for rank in found) / 1e3
    assert taken == pytest.approx(seconds("all_reduce", 4 << 20, 2, HOST_LINK), rel=0.25)  # and copies to the host
