"""What is written is what is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuyard.core.errors import InputError
from gpuyard.core.workload import Job, Workload
from gpuyard.traces import describe, generate, read, record, write

from .same import assert_same

MODELS = ("res50", "gnmt", "m5", "bert", "generic")
NAN = float("nan")

amounts = st.floats(0, 1e12, allow_nan=False) | st.just(NAN)
labels = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=8)
work = st.one_of(
    st.tuples(st.floats(0, 1e15), st.just(NAN)),
    st.tuples(st.just(NAN), st.floats(0, 1e15)),
)
gpus = st.integers(1, 512).map(float) | st.floats(0.001, 1, exclude_max=True)


numbers = st.integers(0, 10**12)


@st.composite
def workloads(draw: st.DrawFn, names: st.SearchStrategy[Any]) -> Workload:
    ids = draw(st.lists(names, min_size=1, max_size=6, unique_by=str))
    jobs = []
    for name in ids:
        iterations, duration = draw(work)
        jobs.append(
            Job(
                job_id=name, arrival_s=draw(st.floats(0, 1e12)), gpus=draw(gpus), model=draw(st.sampled_from(MODELS)),
                iterations=iterations, duration_s=duration, cpus=draw(amounts), memory_gb=draw(amounts),
                storage_mbps=draw(amounts), tenant=draw(st.just("default") | labels),
                priority=draw(st.integers(-(2**31), 2**31 - 1)), gpu_types=draw(st.just("") | labels),
            )
        )  # fmt: skip
    return Workload.from_jobs(jobs)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(workloads(numbers | labels))
@pytest.mark.parametrize("suffix", [".yaml", ".parquet"])
def test_our_own_formats_lose_nothing(tmp_path: Path, suffix: str, workload: Workload) -> None:
    file = tmp_path / f"jobs{suffix}"
    write(workload, file)
    assert_same(read(file), workload)
    first = file.read_bytes()
    write(read(file), file)
    assert file.read_bytes() == first


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(workloads(numbers | st.from_regex(r"[A-Za-z0-9_./-]+", fullmatch=True)))
def test_replaying_a_record_is_exact(tmp_path: Path, workload: Workload) -> None:
    file = tmp_path / "replay.csv"
    lost = record(workload, file)
    again = read(file, format="synergy")
    left = ("duration_s", "cpus", "memory_gb", "storage_mbps", "tenant", "priority", "gpu_types")
    assert_same(again, workload, but=(*left, "iterations"))
    known = ~np.isnan(workload.iterations)
    assert again.iterations[known].tolist() == workload.iterations[known].tolist()
    assert set(lost) <= set(left)
    assert ("priority" in lost) == bool(workload.priority.any())
    first = file.read_bytes()
    assert record(again, file) == ()
    assert file.read_bytes() == first


def test_durations_become_whole_iterations(tmp_path: Path) -> None:
    jobs = [Job(0, 0, 1, "res50", duration_s=100.0), Job(1, 2.5, 4, "gnmt", iterations=7)]
    record(Workload.from_jobs(jobs), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == f"0,res50,0,{int(100 / 0.78)},1\n1,gnmt,2.5,7,4\n"
    record(Workload.from_jobs(jobs), tmp_path / "b.csv", iteration_s={"res50": 0.3, "gnmt": 1})
    assert read(tmp_path / "b.csv").iterations.tolist() == [333, 7]
    with pytest.raises(InputError, match="'res50' has no iteration time"):
        record(Workload.from_jobs(jobs), tmp_path / "c.csv", iteration_s={"gnmt": 1})


def test_yaml_leaves_defaults_out(tmp_path: Path) -> None:
    write(Workload.from_jobs([Job("a", 0, 0.5, "gnmt", duration_s=60)]), tmp_path / "w.yaml")
    want = "gpuyard: workload/1\njobs:\n- {job_id: a, arrival_s: 0, gpus: 0.5, model: gnmt, duration_s: 60}\n"
    assert (tmp_path / "w.yaml").read_text() == want


@pytest.mark.parametrize("name", ["a,b", 'a"b', "#a", "a b"])
def test_ids_that_would_break_the_csv_are_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="cannot stand in Synergy's CSV"):
        record(Workload.from_jobs([Job(name, 0, 1, "gnmt", iterations=1)]), tmp_path / "a.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    workload = generate(3)
    with pytest.raises(InputError, match=r"jobs.txt: '.txt' is not a suffix"):
        write(workload, tmp_path / "jobs.txt")
    with pytest.raises(InputError, match="cannot be written: No such file or directory"):
        write(workload, tmp_path / "absent" / "jobs.yaml")
    (tmp_path / "jobs.yaml").mkdir()
    with pytest.raises(InputError, match="cannot be written: Is a directory"):
        write(workload, tmp_path / "jobs.yaml")
    assert [path.name for path in tmp_path.iterdir()] == ["jobs.yaml"]


def test_commands_of_unknown_length_are_kept_counted_and_not_turned_into_numbers(tmp_path: Path) -> None:
    jobs = [
        Job("own", 0.0, 2, "res50", command="python train.py"),
        Job("known", 0.0, 1, "res50", duration_s=7200.0),
    ]
    workload = Workload.from_jobs(jobs)
    for suffix in (".yaml", ".parquet"):
        write(workload, tmp_path / f"jobs{suffix}")
        assert_same(read(tmp_path / f"jobs{suffix}"), workload)
    facts = describe(workload)
    assert (facts["duration_mean_h"], facts["gpu_hours"]) == (2.0, 2.0)
    assert facts["notes"] == ["1 of 2 jobs do not say how long they are, and count for no duration"]
    assert describe(workload.take(np.array([0])))["duration_mean_h"] is None
    with pytest.raises(InputError, match="iterations of job own are not known"):
        record(workload, tmp_path / "replay.csv")
