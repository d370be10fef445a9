"""A part of a workload by size, time and tenant, from Python and on the command line."""

import json
from pathlib import Path

import numpy as np
import pytest

from gpuyard.cli import main
from gpuyard.core.errors import InputError
from gpuyard.core.workload import Job, Workload
from gpuyard.traces import Filter, generate, read

JOBS = [
    Job("a", 0.0, 1, "res18", duration_s=60, tenant="red"),
    Job("b", 100.0, 8, "res18", duration_s=60, tenant="blue"),
    Job("c", 200.0, 0.5, "res18", duration_s=60, tenant="red"),
    Job("d", 300.0, 4, "res18", duration_s=60, tenant="green"),
]


def kept(part: Filter) -> list[str]:
    names: list[str] = part.apply(Workload.from_jobs(JOBS)).job_id.tolist()
    return names


def test_sizes_include_both_ends() -> None:
    assert kept(Filter(gpus=(1, 4))) == ["a", "d"]
    assert kept(Filter(gpus=(0.5, 0.5))) == ["c"]


def test_tenants() -> None:
    assert kept(Filter(tenants=("red",))) == ["a", "c"]
    assert kept(Filter(tenants=("blue", "green"))) == ["b", "d"]


def test_a_stretch_of_time_begins_at_zero_and_ends_before_its_end() -> None:
    part = Filter(between_s=(50, 300)).apply(Workload.from_jobs(JOBS))
    assert part.job_id.tolist() == ["b", "c"]
    assert part.arrival_s.tolist() == [50, 150]
    assert part.notes == ("2 of 4 jobs left out: not between 50 s and 300 s, and time counts from 50 s",)


def test_several_at_once_and_none() -> None:
    assert kept(Filter(gpus=(0, 1), tenants=("red",), between_s=(0, 100))) == ["a"]
    assert kept(Filter()) == ["a", "b", "c", "d"]


def test_nothing_left_and_unknown_tenants_are_refused() -> None:
    with pytest.raises(InputError, match="no job is left: not of 16 to 32 GPUs"):
        kept(Filter(gpus=(16, 32)))
    with pytest.raises(InputError, match=r"field tenant: 'gren' has no job\. Did you mean 'green'"):
        kept(Filter(tenants=("gren",)))


def test_a_stretch_of_an_endless_workload_is_whole_and_ends() -> None:
    whole = generate(2000)
    until = float(whole.arrival_s[1500])
    part = Filter(between_s=(1000.0, until)).apply(generate(10))
    assert part.job_id.tolist() == np.flatnonzero((whole.arrival_s >= 1000) & (whole.arrival_s < until)).tolist()
    assert not part.endless


def gpuyard(command: str) -> int:
    with pytest.raises(SystemExit) as done:
        main(command.split())
    return int(done.value.code or 0)


TRACE = "0,res18,0,100,1\n1,res18,3600,100,8\n2,res18,7200,100,2\n"


def test_every_trace_command_and_simulate_filter_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").write_text(TRACE)
    options = "--gpus 1:2 --between 1h:3h --tenant default"
    assert gpuyard(f"trace info t {options} --format json") == 0
    (facts,) = json.loads(capsys.readouterr().out)
    assert facts["jobs"] == 1
    assert len(facts["notes"]) == 2
    assert gpuyard(f"trace convert t part.csv {options}") == 0
    assert (tmp_path / "part.csv").read_text() == "2,res18,3600,100,2\n"
    assert gpuyard(f"simulate --workload t --cluster 1x8 {options} --format json") == 0
    told = capsys.readouterr()
    assert json.loads(told.out)[0]["jobs"] == 1
    assert "note: 1 of 3 jobs left out: not of 1 to 2 GPUs" in told.err
    assert gpuyard("trace generate --multi-gpu --jobs 50 --gpus 2:8 --out g.yaml") == 0
    assert read("g.yaml").gpus.min() == 2


@pytest.mark.parametrize("options", ["--gpus x", "--gpus 8:1", "--between 5", "--between 2d:1d", "--tenant nobody"])
def test_a_bad_filter_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").write_text(TRACE)
    assert gpuyard(f"trace convert t part.csv {options}") == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "part.csv").exists()
