"""Kernel traces of Nsight Systems become sequences; pairs of models become experiments."""

from pathlib import Path

import pytest

from gpuyard.core.errors import InputError
from gpuyard.profiles.kernel_sequences import bundled_kernels, model_sequence, read_sequence, write_sequence
from gpuyard.traces.sharing import PairChoice, read_experiment, read_nsys, write_pairs

HEADER = (
    "API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),Kernel Dur (ns),PID,Kernel Name\n"
)
# Two jobs of two kernels: three are launched before the first ends at 3000, and the last when all is done.
ROWS = """\
0,100,100,900,1000,2000,7,conv
200,100,300,2700,3000,500,7,"relu<float, 4>"
400,100,500,3000,3500,1000,7,conv
9000,100,None,None,9100,700,7,"relu<float, 4>"
"""


def trace(folder: Path, text: str = HEADER + ROWS) -> Path:
    path = folder / "trace.csv"
    path.write_text(text)
    return path


def test_a_trace_becomes_a_sequence_and_a_queue(tmp_path: Path) -> None:
    found = read_nsys(trace(tmp_path), jobs=2)
    assert found.sequence.durations_s == pytest.approx((1500e-9, 600e-9))  # means of 2000 and 1000, 500 and 700
    assert (found.queue_s * 1e9).round().tolist() == [0, 200, 400, 3000, 3500, 4500, 9000, 9800]
    assert found.queue.tolist() == [1, 2, 3, 2, 1, 0, 1, 0]
    assert found.longest_queue == 3
    write_sequence(found.sequence, found.longest_queue, tmp_path / "kernels.json")
    sequence, queue = read_sequence(tmp_path / "kernels.json")
    assert sequence.durations_s == pytest.approx(found.sequence.durations_s)
    assert queue == 3


def test_a_kernel_that_ends_as_the_next_is_launched_was_not_queued_beside_it(tmp_path: Path) -> None:
    rows = "0,100,100,0,1000,2000,7,conv\n3000,100,3100,0,3200,500,7,conv\n"
    found = read_nsys(trace(tmp_path, HEADER + rows), jobs=2)
    assert found.queue.tolist() == [1, 0, 1, 0]
    assert found.longest_queue == 1


@pytest.mark.parametrize(
    ("text", "jobs", "pid", "complaint"),
    [
        (HEADER + ROWS, 3, None, "field jobs: 3 has 4 kernels, which are not 3 equal jobs"),
        (HEADER + ROWS.replace("400,100,500,3000,3500,1000,7,conv", "400,100,500,3000,3500,1000,7,gemm"), 2, None,
         "row 4, field Kernel Name: 'gemm' is not the kernel that job 1 has in its place, 'conv'"),
        (HEADER + ROWS.replace(",7,conv", ",8,conv"), 2, None, "several processes. Name one with --pid: 7, 8"),
        (HEADER + ROWS, 2, 9, "field pid: 9 launched no kernel. Known: 7"),
        (HEADER.replace("Kernel Dur (ns)", "Dur") + ROWS, 2, None, "lacks the column 'Kernel Dur (ns)'"),
        (HEADER + ROWS.replace("1000,2000,7", "1000,soon,7"), 2, None, "row 2, field Kernel Dur (ns): 'soon' is not a"),
    ],
)  # fmt: skip
def test_a_trace_that_is_no_such_thing_is_refused(
    tmp_path: Path, text: str, jobs: int, pid: int | None, complaint: str
) -> None:
    with pytest.raises(InputError) as caught:
        read_nsys(trace(tmp_path, text), jobs, pid)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('{"gpuyard": "kernels/2"}', "its field gpuyard must be 'kernels/1'"),
        ('{"gpuyard": "kernels/1", "durations_us": [1, "2"]}', "field durations_us: must be a list of numbers"),
        ('{"gpuyard": "kernels/1", "durations_us": []}', "field kernels: 0 must be 1 to 10,000,000"),
        ('{"gpuyard": "kernels/1", "durations_us": [-1]}', "must be a finite number, 1e-09 or more"),
        ('{"gpuyard": "kernels/1", "durations_us": [1], "layer_ends": [2]}', "field layer_ends: must rise from 1 to"),
        (
            '{"gpuyard": "kernels/1", "durations_us": [1], "longest": 2}',
            "'longest' is not a field of a file of kernels",
        ),
    ],
)
def test_a_broken_file_of_kernels_is_refused(tmp_path: Path, content: str, complaint: str) -> None:
    (tmp_path / "kernels.json").write_text(content)
    with pytest.raises(InputError) as caught:
        read_sequence(tmp_path / "kernels.json")
    assert complaint in str(caught.value)
    assert "kernels.json" in str(caught.value)


def test_whatever_is_bundled_says_what_it_is_worth() -> None:
    for model, entry in bundled_kernels().items():
        assert entry["basis"].startswith(("assumed", "inferred")), model
        assert model_sequence(model, batch=3).total_s == pytest.approx(3 * model_sequence(model).total_s)


def test_pairs_are_those_of_the_study_and_can_be_read(tmp_path: Path) -> None:
    paths = write_pairs(PairChoice(), tmp_path / "pairs")
    assert len(paths) == 7 * 7 * 2 * 2 * 1 * 3
    assert {path.parent.name for path in paths} == {"device_0", "device_1", "device_2"}
    found = read_experiment(paths[1])
    assert (found.seconds, found.jobs[0].gpu) == (90, 1)
    assert [(job.sync_every, job.priority, job.thinks_s) for job in found.jobs] == [(50, 0, (0.0,)), (0, 1, (2.0,))]
    with pytest.raises(InputError, match="is not empty"):
        write_pairs(PairChoice(), tmp_path / "pairs")
