"""gpuyard trace on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.cli import main
from gpuyard.core.workload import Job, Workload
from gpuyard.traces import describe, generate, read, with_arrivals

from .same import assert_same


def gpuyard(*args: object) -> int:
    with pytest.raises(SystemExit) as done:
        main([str(arg) for arg in args])
    return int(done.value.code or 0)


def test_generate_writes_what_the_library_generates(tmp_path: Path) -> None:
    out = tmp_path / "jobs.parquet"
    assert gpuyard("trace", "generate", "--out", out, "--jobs", 50, "--load", 4, "--split", "50,0,50", "--seed", 1,
                   "--multi-gpu", "--small") == 0  # fmt: skip
    want = generate(50, load=4, split=(50, 0, 50), seed=1, multi_gpu=True, durations="small")
    assert_same(read(out), want)


def test_convert_to_every_format_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("0,res50,0,100,1\n1,gnmt,5.5,200,2\n")
    assert gpuyard("trace", "convert", tmp_path / "a.csv", tmp_path / "b.yaml") == 0
    assert gpuyard("trace", "convert", tmp_path / "b.yaml", tmp_path / "c.parquet") == 0
    assert gpuyard("trace", "convert", tmp_path / "c.parquet", tmp_path / "d.csv") == 0
    assert (tmp_path / "d.csv").read_text() == (tmp_path / "a.csv").read_text()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "d.csv: 2 jobs" in captured.err


def test_convert_draws_new_arrivals_on_request(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("0,res50,0,100,1\n1,gnmt,5.5,200,2\n")
    gpuyard("trace", "convert", tmp_path / "a.csv", tmp_path / "b.csv", "--arrivals", "exponential", "--load", 2)
    assert_same(read(tmp_path / "b.csv"), with_arrivals(read(tmp_path / "a.csv"), load=2))


def test_convert_says_what_synergys_csv_cannot_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = "{job_id: 0, arrival_s: 0, gpus: 1, model: gnmt, duration_s: 9, tenant: ann, cpus: 4}"
    (tmp_path / "a.yaml").write_text(f"gpuyard: workload/1\njobs: [{job}]\n")
    assert gpuyard("trace", "convert", tmp_path / "a.yaml", tmp_path / "b.csv") == 0
    assert "no column for cpus, tenant" in capsys.readouterr().err


def test_convert_counts_iterations_of_models_under_any_of_their_names(tmp_path: Path) -> None:
    job = "{job_id: 0, arrival_s: 0, gpus: 1, model: ResNet-50, duration_s: 78}"
    (tmp_path / "a.yaml").write_text(f"gpuyard: workload/1\njobs: [{job}]\n")
    assert gpuyard("trace", "convert", tmp_path / "a.yaml", tmp_path / "b.csv") == 0
    assert (tmp_path / "b.csv").read_text() == "0,ResNet-50,0,100,1\n"


def test_info_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text("0,res50,0,1000,1\n1,gnmt,1800,3000,2\n2,gnmt,3600,30000,1\n")
    assert gpuyard("trace", "info", tmp_path / "a", "--format", "json") == 0
    (facts,) = json.loads(capsys.readouterr().out)
    assert (facts["format"], facts["jobs"], facts["span_h"], facts["jobs_per_hour"]) == ("synergy", 3, 1, 2)
    assert facts["gpus"] == {"1": 2, "2": 1}
    assert facts["models"] == {"gnmt": 2, "res50": 1}
    assert facts["duration_median_h"] == pytest.approx(780 / 3600)
    assert facts["gpu_hours"] == pytest.approx((780 + 2 * 360 + 3600) / 3600)


def test_info_counts_a_model_once_whatever_it_is_called(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text("0,gnmt,0,10,1\n1,res50,1,10,1\n2,ResNet-50,2,10,1\n3,resnet50,3,10,1\n")
    assert gpuyard("trace", "info", tmp_path / "a", "--format", "json") == 0
    (facts,) = json.loads(capsys.readouterr().out)
    assert list(facts["models"].items()) == [("res50", 3), ("gnmt", 1)]


def test_info_counts_models_that_nothing_is_known_of() -> None:
    jobs = [Job(name, 0, 1, "own", duration_s=60) for name in range(2)]
    assert describe(Workload.from_jobs(jobs))["models"] == {"own": 2}


def test_info_as_table_shows_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,1024,1,500\nq,1000,1024,0,0\n")
    assert gpuyard("trace", "info", tmp_path / "a") == 0
    out = capsys.readouterr().out
    assert "1 left out: CPU-only pods" in out
    assert "openb" in out


def test_errors_are_one_line_and_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text("0,res50,0,1000,1\n0,res50,0,1000,1\n")
    assert gpuyard("trace", "convert", tmp_path / "a", tmp_path / "b.yaml") == 2
    assert (
        capsys.readouterr().err
        == f"error: {tmp_path}/a, row 2, field job_id: 0 stands twice. Give each job an id of its own\n"
    )
    assert not (tmp_path / "b.yaml").exists()
    assert gpuyard("trace", "generate", "--out", tmp_path / "b.yaml", "--split", "1,2") == 2
