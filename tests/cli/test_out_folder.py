"""Where runs go is settled before anything is simulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyard.cli import main

NEVER = """
def never(snapshot):
    raise AssertionError("the simulation has begun")
"""


def test_an_out_folder_that_cannot_be_written_costs_no_simulation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policies.py").write_text(NEVER)
    (tmp_path / "file").write_text("mine")
    policy, out = f"{tmp_path / 'policies.py'}:never", tmp_path / "file" / "runs"
    with pytest.raises(SystemExit) as stop:
        main(["simulate", "--jobs", "5", "--policy", policy, "--out", str(out), "--quiet"])
    assert stop.value.code == 2
    assert capsys.readouterr().err.splitlines() == [
        f"error: {tmp_path / 'file'}: no run can be written there: it is not a folder. Name another folder"
    ]


def test_the_second_run_of_a_name_gets_a_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        with pytest.raises(SystemExit):
            main(["simulate", "--jobs", "5", "--cluster", "1x8", "--out", str(tmp_path / "runs"), "--quiet"])
    names = sorted(entry.name for entry in (tmp_path / "runs").iterdir())
    assert names == ["fifo+tune-load9-seed42", "fifo+tune-load9-seed42-2"]
