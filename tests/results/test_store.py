"""Run folders: what is saved is what is read, byte for byte the same each time."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from gpuyard.core.errors import InputError
from gpuyard.results import TABLES, Run, folder_name, is_run, load_run

from .builder import build, job, span, three_jobs

CLUSTER_FILES = ("run.json", "jobs.parquet", "timeline.parquet", "summary.json")
"""What the run of a cluster consists of."""


def test_a_run_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    saved = three_jobs().save(tmp_path / "runs" / "a")
    loaded = load_run(tmp_path / "runs" / "a")
    assert_frame_equal(saved.jobs, loaded.jobs)
    assert_frame_equal(saved.timeline, loaded.timeline)
    assert (saved.info, saved.summary, saved.path) == (loaded.info, loaded.summary, loaded.path)
    assert loaded.summary["cpu_seconds"] == 0.5
    assert loaded.summary["run"] == str(tmp_path / "runs" / "a")


def test_tables_have_the_documented_columns_and_types(tmp_path: Path) -> None:
    three_jobs().save(tmp_path / "a")
    for name in ("jobs", "timeline"):
        assert dict(pl.read_parquet(tmp_path / "a" / f"{name}.parquet").schema) == TABLES[name].columns


def test_the_documented_columns_are_the_declared_ones() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference.md").read_text()
    for name in (column for table in TABLES.values() for column in table.columns):
        assert f"`{name}`" in text, f"docs/reference.md does not explain {name}"


def test_text_ids_stay_text(tmp_path: Path) -> None:
    build([job("train-a")], [span("train-a", 0, 1, [0])]).save(tmp_path / "a")
    assert load_run(tmp_path / "a").jobs["job_id"].to_list() == ["train-a"]


def test_an_unfinished_job_given_as_nan_is_null(tmp_path: Path) -> None:
    run = build([job(1, finish_s=None, start_s=None)], [span(1, 0, 1, [0])])
    nan = pl.lit(float("nan"))
    jobs = run.jobs.with_columns(finish_s=nan, start_s=nan)
    given = Run(run.info, {"jobs": jobs, "timeline": run.timeline}, run.summary)
    assert given.save(tmp_path / "a").jobs["finish_s"].to_list() == [None]


def test_equal_runs_give_equal_bytes(tmp_path: Path) -> None:
    three_jobs().save(tmp_path / "a")
    run = three_jobs()
    pieces = pl.concat([run.timeline[:1], run.timeline[1:]], rechunk=False)
    swapped = dict(reversed(run.info.items()))
    slower = run.summary | {"cpu_seconds": 99.0, "run": "elsewhere"}
    tables = {"jobs": run.jobs, "timeline": pieces}
    Run(swapped | {"timing": {"cpu_seconds": 0.5}}, tables, slower).save(tmp_path / "b")
    for name in CLUSTER_FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_json_is_strict_and_sorted(tmp_path: Path) -> None:
    three_jobs(rate=float("inf"), half=0.1 + 0.2).save(tmp_path / "a")
    text = (tmp_path / "a" / "run.json").read_text()
    value = json.loads(text)
    assert value["rate"] is None
    assert value["half"] == 0.1 + 0.2
    assert list(value) == sorted(value)


def test_an_existing_run_is_replaced_only_when_allowed(tmp_path: Path) -> None:
    three_jobs(seed=1).save(tmp_path / "a")
    with pytest.raises(InputError, match="already holds a run"):
        three_jobs(seed=2).save(tmp_path / "a")
    assert load_run(tmp_path / "a").info["seed"] == 1
    three_jobs(seed=2).save(tmp_path / "a", overwrite=True)
    assert load_run(tmp_path / "a").info["seed"] == 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("names", [["notes.txt"], ["run.json", "notes.txt"], []])
def test_a_folder_that_is_not_a_run_is_never_touched(tmp_path: Path, names: list[str]) -> None:
    (tmp_path / "a").mkdir()
    for name in names:
        (tmp_path / "a" / name).write_text("mine")
    with pytest.raises(InputError, match="in the way"):
        three_jobs().save(tmp_path / "a", overwrite=True)
    assert sorted(entry.name for entry in (tmp_path / "a").iterdir()) == sorted(names)


def test_a_file_in_the_way_stays(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    with pytest.raises(InputError, match="not a folder"):
        three_jobs().save(tmp_path / "a", overwrite=True)
    assert (tmp_path / "a").read_text() == "mine"


def test_a_table_that_lacks_a_column_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    run = three_jobs()
    with pytest.raises(InputError, match="jobs: lacks the column gpus"):
        Run(run.info, {"jobs": run.jobs.drop("gpus"), "timeline": run.timeline}, run.summary).save(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_loading_nothing_names_the_nearest_run(tmp_path: Path) -> None:
    three_jobs().save(tmp_path / "fifo+tune-load9")
    with pytest.raises(InputError, match=r"no such run folder. Did you mean 'fifo\+tune-load9'"):
        load_run(tmp_path / "fifo+tune-load8")
    with pytest.raises(InputError, match="gpuyard simulate"):
        load_run(tmp_path / "none" / "a")
    with pytest.raises(InputError, match="is not a run folder"):
        load_run(tmp_path)


@pytest.mark.parametrize("name", CLUSTER_FILES)
def test_an_incomplete_run_says_what_it_lacks(tmp_path: Path, name: str) -> None:
    three_jobs().save(tmp_path / "a")
    (tmp_path / "a" / name).unlink()
    assert not is_run(tmp_path / "a")
    with pytest.raises(InputError, match=f"lacks {name}"):
        load_run(tmp_path / "a")


@pytest.mark.parametrize("name", CLUSTER_FILES)
def test_a_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    three_jobs().save(tmp_path / "a")
    path = tmp_path / "a" / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match=f"{name}: is damaged"):
        load_run(tmp_path / "a")


def test_a_table_of_another_program_is_refused(tmp_path: Path) -> None:
    three_jobs().save(tmp_path / "a")
    pl.DataFrame({"x": [1]}).write_parquet(tmp_path / "a" / "jobs.parquet")
    with pytest.raises(InputError, match="lacks the column job_id"):
        load_run(tmp_path / "a")


def test_names_say_what_tells_runs_apart() -> None:
    assert folder_name("fifo+tune", 9.0, 42) == "fifo+tune-load9-seed42"
    assert folder_name("fifo+tune", None, 42, "faithful") == "fifo+tune-seed42-faithful"


def test_a_name_cannot_leave_its_folder() -> None:
    assert "/" not in folder_name("../my policy/x")
    assert not folder_name("../my policy/x").startswith(".")
