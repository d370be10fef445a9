"""Philly's log: each rule of the original's parser as an option, and the corrected reading."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpuyard.core.errors import InputError
from gpuyard.core.workload import Workload
from gpuyard.traces import PhillyOptions, generate, read

from .same import texts

START = datetime(2017, 8, 7)
HOUR = 3600


def clock(seconds: float | None) -> str:
    return "None" if seconds is None else str(START + timedelta(seconds=seconds))


def attempt(start: float | None, end: float | None, *gpus: int) -> dict[str, Any]:
    detail = [{"ip": f"m{node}", "gpus": [f"gpu{i}" for i in range(count)]} for node, count in enumerate(gpus)]
    return {"start_time": clock(start), "end_time": clock(end), "detail": detail}


def job(name: str, submitted: float, *attempts: dict[str, Any], vc: str = "vc1") -> dict[str, Any]:
    return {"status": "Pass", "vc": vc, "jobid": name, "submitted_time": clock(submitted), "user": "u",
            "attempts": list(attempts)}  # fmt: skip


LOG = [
    job("late", 100, attempt(200, 200 + 2 * HOUR, 2), attempt(10000, 10000 + HOUR, 4, 4), vc="vc2"),
    job("first", 0, attempt(5, 5 + HOUR, 1)),
    job("none", 50),
    job("unknown", 60, attempt(None, 70, 1)),
    job("broken end", 70, attempt(80, 80 + HOUR, 1), attempt(9000, None, 1)),
    job("no gpu", 80, attempt(90, 5000)),
    job("three", 90, attempt(100, 100 + HOUR, 3)),
    job("huge", 95, attempt(100, 100 + HOUR, 8, 8, 8)),
    job("short", 99, attempt(100, 200, 1)),
]


def philly(folder: Path, log: Any = None, options: PhillyOptions | None = None, **rest: Any) -> Workload:
    (folder / "cluster_job_log").write_text(json.dumps(LOG if log is None else log))
    return read(folder / "cluster_job_log", philly=options, **rest)


def test_by_default_the_log_is_taken_at_its_word(tmp_path: Path) -> None:
    workload = philly(tmp_path)
    assert workload.job_id.tolist() == ["first", "broken end", "three", "huge", "short", "late"]
    assert workload.arrival_s.tolist() == [0, 70, 90, 95, 99, 100]
    assert workload.gpus.tolist() == [1, 1, 3, 24, 1, 8]
    assert workload.duration_s.tolist() == [HOUR, HOUR, HOUR, HOUR, 100, 3 * HOUR]
    assert texts(workload, "tenant") == ["vc1"] * 5 + ["vc2"]
    assert workload.notes[:4] == (
        "1 jobs without an attempt or a submission time left out",
        "2 attempts without a start or an end left out",
        "2 jobs left out: no usable attempt",
        "1 attempts without a GPU or a run time left out",
    )


def test_each_attempt_can_be_a_job(tmp_path: Path) -> None:
    workload = philly(tmp_path, options=PhillyOptions(attempts="each"))
    by_name = {workload.job(i).job_id: workload.job(i) for i in range(len(workload))}
    assert len(workload) == 7
    assert [by_name[f"late#{n}"].gpus for n in (0, 1)] == [2, 8]
    assert [by_name[f"late#{n}"].arrival_s for n in (0, 1)] == [100, 10000]


def test_published_single_gpu_takes_only_the_number_of_jobs(tmp_path: Path) -> None:
    workload = philly(tmp_path, options=PhillyOptions.published())
    same = generate(4)
    assert workload.job_id.tolist() == ["late", "first", "three", "huge"]  # the order of the log
    assert workload.duration_s.tolist() == same.duration_s.tolist()
    assert workload.arrival_s.tolist() == same.arrival_s.tolist()
    assert texts(workload, "model") == texts(same, "model")
    assert workload.gpus.tolist() == [1, 1, 1, 1]


def test_published_multi_gpu_takes_odd_sizes_for_one_gpu(tmp_path: Path) -> None:
    workload = philly(tmp_path, options=PhillyOptions.published(multi_gpu=True))
    assert dict(zip(workload.job_id.tolist(), workload.gpus.tolist(), strict=True)) == {
        "late": 8,
        "first": 1,
        "three": 1,
    }
    assert "1 attempts on more than 16 GPUs left out" in workload.notes
    assert "1 attempts of another size taken for one GPU" in workload.notes


def test_published_small_trace(tmp_path: Path) -> None:
    workload = philly(tmp_path, options=PhillyOptions.published(small=True))
    assert workload.duration_s.tolist() == generate(4, durations="small").duration_s.tolist()


def windowed(count: int) -> list[dict[str, Any]]:
    """The log's start, then jobs a minute apart from hour 2399.5 on, in reverse order, one of them of odd size."""
    times = [2399.5 * HOUR + 60 * n for n in range(count)]
    jobs = [job(f"j{n}", at, attempt(at, at + HOUR, 3 if n == 40 else 2)) for n, at in enumerate(times)]
    return [job("start", 0, attempt(None, None, 1)), *reversed(jobs)]


def test_published_trace_arrivals_keep_the_window_and_shift_only_a_full_list(tmp_path: Path) -> None:
    options = PhillyOptions.published(multi_gpu=True, no_exp=True, trace_arrivals=True)
    workload = philly(tmp_path, windowed(100), options)
    assert workload.job_id.tolist() == [f"j{n}" for n in range(31, 100) if n != 40]
    assert workload.arrival_s[0] == 2400 * HOUR + 60
    assert set(workload.duration_s) == {HOUR}
    full = philly(tmp_path, windowed(8200), options)
    assert len(full) == 8000
    assert full.arrival_s[0] == 0
    assert full.job_id[-1] == "j8199"  # the cap counts in the order of the log, the sort comes after


def test_window_cap_and_filter_work_without_the_faults(tmp_path: Path) -> None:
    options = PhillyOptions(window_h=(2400, 3000), max_jobs=10, duration_s=(60, 2 * HOUR))
    workload = philly(tmp_path, windowed(100), options)
    assert (len(workload), workload.arrival_s[0]) == (10, 0)
    assert "31 jobs submitted outside the window left out" in workload.notes
    assert "59 jobs beyond the limit left out" in workload.notes


def test_arrivals_can_be_static_or_drawn(tmp_path: Path) -> None:
    assert philly(tmp_path, options=PhillyOptions(arrivals="static")).arrival_s[2] == 0.002
    drawn = philly(tmp_path, options=PhillyOptions(arrivals="exponential"), load=5, seed=3)
    assert drawn.arrival_s.tolist() == generate(6, load=5, seed=3).arrival_s.tolist()


def test_truncated_json_is_one_error_with_the_position(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(json.dumps(LOG, indent=1)[:-300])
    with pytest.raises(InputError, match=r"log, row .*: is not valid JSON at column ") as refused:
        read(tmp_path / "log")
    assert refused.value.row is not None
    assert refused.value.row > 100


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"attempts": "many"}, "attempts", "many"),
        ({"submitted_time": "yesterday"}, "submitted_time", "yesterday"),
        ({"jobid": 7}, "jobid", 7),
        ({"attempts": [{"start_time": clock(0), "end_time": 5, "detail": []}]}, "end_time", 5),
        ({"attempts": [{"start_time": clock(0), "end_time": clock(9), "detail": None}]}, "detail", None),
    ],
)
def test_malformed_jobs_are_named(tmp_path: Path, change: dict[str, Any], field: str, value: object) -> None:
    log = [LOG[1], LOG[1] | {"jobid": "x"} | change]
    with pytest.raises(InputError) as refused:
        philly(tmp_path, log)
    assert (refused.value.row, refused.value.field, refused.value.value) == (2, field, value)


def test_a_log_without_jobs_says_why(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no job that could run; 1 jobs without an attempt"):
        philly(tmp_path, [LOG[2]])
