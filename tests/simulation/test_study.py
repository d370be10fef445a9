"""From settings to workloads and options."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuyard.core.errors import InputError
from gpuyard.core.workload import Workload
from gpuyard.simulation.failure_file import read_failures
from gpuyard.simulation.options import DEFAULT_JOBS, Failure, Options, make_options
from gpuyard.simulation.study import prepare

TRACE = "0,res18,0,4000,1\n1,gnmt,7200,90000,4\n2,lstm,7300,90000,2\n"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return str(path)


@pytest.fixture
def philly(tmp_path: Path) -> str:
    def job(number: int, hours: int, gpus: int) -> dict[str, Any]:
        start, end = "2017-10-01 05:00:00", f"2017-10-01 {5 + hours:02}:00:00"
        detail = [{"ip": "m1", "gpus": [f"gpu{i}" for i in range(gpus)]}]
        attempt = {"start_time": start, "end_time": end, "detail": detail}
        submitted = f"2017-10-01 0{number}:00:00"
        return {"status": "Pass", "vc": "v", "jobid": f"j{number}", "submitted_time": submitted, "user": "u",
                "attempts": [attempt]}  # fmt: skip

    path = tmp_path / "cluster_job_log"
    path.write_text(json.dumps([job(0, 3, 4), job(1, 5, 1), job(2, 2, 8)]))
    return str(path)


def workload_of(**values: object) -> Workload:
    return prepare(make_options(values)).workload


def window_of(**values: object) -> tuple[int, int] | None:
    return prepare(make_options(values)).options.window


def arrivals(**values: object) -> list[float]:
    times: list[float] = workload_of(**values).arrival_s.tolist()
    return times


def test_a_trace_keeps_its_arrivals_unless_told_otherwise(trace: str) -> None:
    assert arrivals(workload=trace) == [0, 7200, 7300]
    assert arrivals(workload=trace, load=50) == [0, 7200, 7300]
    assert arrivals(workload=trace, static=True) == [0, 7200, 7300]
    assert arrivals(workload=trace, arrivals="static") == [0, 0.001, 0.002]
    assert arrivals(workload=trace, arrivals="exponential", load=50) != arrivals(
        workload=trace, arrivals="exponential", load=5
    )


def test_generated_jobs_arrive_at_the_load_or_all_at_once() -> None:
    assert arrivals(jobs=3, static=True) == arrivals(jobs=3, arrivals="static") == [0, 0.001, 0.002]
    assert arrivals(jobs=50, load=100)[-1] < arrivals(jobs=50, load=10)[-1]


def test_jobs_caps_a_trace_and_single_gpu_narrows_it(trace: str) -> None:
    assert len(workload_of(workload=trace, jobs=2)) == 2
    assert workload_of(workload=trace, multi_gpu=False).gpus.tolist() == [1, 1, 1]
    with Path(trace).open("a") as file:
        file.write("3,lstm,7400,90000,0.5\n")
    assert workload_of(workload=trace, multi_gpu=False).gpus.tolist() == [1, 1, 1, 0.5]  # slices are narrow enough


def test_philly_is_taken_at_its_word_or_read_as_the_original_does(philly: str) -> None:
    own = workload_of(workload=philly)
    assert own.gpus.tolist() == [4, 1, 8]
    assert own.arrival_s.tolist() == [0, 3600, 7200]
    drawn = workload_of(workload=philly, load=9, faithful=True)
    assert drawn.gpus.tolist() == [1, 1, 1]
    assert np.allclose(drawn.duration_s, workload_of(jobs=3).duration_s)


def test_the_made_workload_is_measured_in_its_steady_middle_and_others_whole(trace: str) -> None:
    assert window_of() == (4000, 5000)
    assert window_of(window="all") is None
    assert window_of(jobs=100) is None
    assert window_of(workload=trace) is None
    assert window_of(workload=trace, window="1:2") == (1, 2)


def test_made_jobs_go_on_arriving_only_beside_a_window() -> None:
    default, same = prepare(Options()), prepare(Options(jobs=8000, window=(4000, 5000)))
    assert default.workload.endless
    assert default.options.window == same.options.window
    assert default.workload.arrival_s.tolist() == same.workload.arrival_s.tolist()
    late = prepare(Options(window=(DEFAULT_JOBS, DEFAULT_JOBS + 10)))
    assert len(late.workload) >= DEFAULT_JOBS + 10
    assert len(prepare(make_options({"window": "all"})).workload) == DEFAULT_JOBS


@pytest.mark.parametrize(
    "values",
    [
        {"arrivals": "trace"},
        {"policy": "fifo+tun"},
        {"jobs": 5, "window": "2:9"},
        {"failures": [Failure(99, 1.0, 1.0)]},
    ],
)
def test_what_can_be_checked_is_checked_before_the_run(values: dict[str, object]) -> None:
    with pytest.raises(InputError):
        prepare(make_options(values))


def test_failures_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "failures.csv"
    path.write_text("# a bad night\nnode,at,down\n3,12h,45m\n0,60,1d\n")
    assert read_failures(path) == (Failure(3, 43200.0, 2700.0), Failure(0, 60.0, 86400.0))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must start with the header node,at,down"),
        ("node,when\n1,2\n", "must start with the header node,at,down"),
        ("node,at,down\nx,1,2\n", "row 2, field node: 'x' must be a node's number"),
        ("node,at,down\n1,soon,2\n", "row 2, field at: 'soon' is not a number"),
        ("node,at,down\n1,2\n", "row 2, field down: is blank"),
        ("node,at,down\n²,1,2\n", "row 2, field node: '²' must be a node's number"),
        ("node,at,down\n1,2,3,4\n", "row 2: has 4 cells, and the header 3"),
        ('node,at,down\n1,2h,"3h\n2,3h,4h,"\n', "row 3: has 4 cells, and the header 3"),
        ("node,at,down\n" + "1" * 200_000 + ",2,3\n", "is not CSV: field larger than field limit"),
    ],
)
def test_a_bad_failure_file_is_named_with_row_and_field(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "failures.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_failures(path)
    assert says in str(caught.value)


def test_a_file_that_was_changed_meanwhile_is_read_anew(trace: str) -> None:
    options = make_options({"workload": trace, "recorded_on": None})
    before = prepare(options).workload
    assert prepare(options).workload is before
    Path(trace).write_text(TRACE + "3,lstm,7400,90000,2\n")
    assert len(prepare(options).workload) == len(before) + 1
