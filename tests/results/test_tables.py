"""A run has the tables of its world, and says which."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from gpuyard.core.errors import InputError
from gpuyard.results import Run, is_run, load_run

from .builder import emulated, program, three_jobs


def test_a_run_of_programs_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    saved = emulated(program(0), program(1, expected_error=None, exit_code=None)).save(tmp_path / "a")
    loaded = load_run(tmp_path / "a")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        "programs.parquet",
        "run.json",
        "steps.parquet",
        "summary.json",
    ]
    assert is_run(tmp_path / "a")
    assert loaded.world == "emulated"
    assert ("programs" in loaded, "steps" in loaded, "jobs" in loaded) == (True, True, False)
    assert_frame_equal(loaded["programs"], saved["programs"])
    assert loaded["programs"]["exit_code"].to_list() == [0, None]
    assert loaded.summary == saved.summary


def test_the_folder_says_which_tables_it_has(tmp_path: Path) -> None:
    emulated(step_s=None).save(tmp_path / "a")
    three_jobs().save(tmp_path / "b")
    assert json.loads((tmp_path / "a" / "run.json").read_text())["tables"] == ["programs"]
    written = json.loads((tmp_path / "b" / "run.json").read_text())
    assert (written["tables"], written["world"]) == (["jobs", "timeline"], "simulated")


def test_a_table_that_the_world_lacks_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a: the emulated run has no jobs, only programs and steps$"):
        _ = emulated().save(tmp_path / "a").jobs


def test_a_misspelt_table_names_the_nearest(tmp_path: Path) -> None:
    run = three_jobs()
    with pytest.raises(InputError, match=r"'job' is not a table that a run can have. Did you mean 'jobs'"):
        Run(run.info, {"job": run.jobs}, run.summary).save(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_another_format_is_not_read(tmp_path: Path) -> None:
    three_jobs().save(tmp_path / "a")
    path = tmp_path / "a" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 1}))
    assert not is_run(tmp_path / "a")
    with pytest.raises(InputError, match="the run has the format 1, which is not this gpuyard's"):
        load_run(tmp_path / "a")


def test_a_run_of_one_world_may_replace_one_of_another(tmp_path: Path) -> None:
    three_jobs().save(tmp_path / "a")
    emulated().save(tmp_path / "a", overwrite=True)
    assert set(load_run(tmp_path / "a").tables) == {"programs", "steps"}


def test_figures_of_programs_are_those_worked_out_by_hand() -> None:
    summary = emulated(
        program(0, peak_memory_bytes=2**30, durations_from="costs", gpu_s=1.0),
        program(1, emulated_s=20.0, steps=30, exit_code=1, expected_error=0.2),
    ).summary
    assert (summary["programs"], summary["failed"], summary["steps"]) == (2, 1, 30)
    assert (summary["emulated_s"], summary["gpu_s"], summary["waited_s"]) == (20.0, 7.0, 3.0)
    assert summary["gpu_s_per_step"] == pytest.approx(7 / 30)
    assert summary["mean_step_s"] == pytest.approx(0.5)
    assert summary["peak_memory_mib"] == 3 * 1024
    assert (summary["durations_from"], summary["expected_error"]) == ("resnet50 on A100", 0.2)


def test_without_steps_there_are_no_step_times() -> None:
    summary = emulated(program(steps=0), step_s=None).summary
    assert (summary["mean_step_s"], summary["gpu_s_per_step"]) == (None, None)
