"""One set of options, whoever gives them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gpuyard
from gpuyard import InputError, Job, Options, Workload
from gpuyard.cli import load_command, main
from gpuyard.simulation.options import Failure, make_options, option_fields
from gpuyard.simulation.study import prepare

OWN_MODEL = """
grid: {cpus: [1, 3, 6], memory_gb: [62.5]}
models:
  mine: {task: image, iteration_s: 0.1, throughput: [[0.5], [1.0], [1.5]]}
"""
HOUR = 3600.0


def test_the_command_line_has_every_option_under_the_name_of_its_field_without_the_unit() -> None:
    flags = {flag for option in load_command("simulate").params for flag in option.opts}
    assert {f"--{name.replace('_', '-')}" for name in option_fields()} <= flags
    assert option_fields()["round"] == "round_s"
    assert {field.removesuffix("_s") for field in option_fields().values()} == set(option_fields())


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({"round": "10m"}, Options(round_s=600)),
        ({"starvation": "none"}, Options()),
        ({"starvation": "1000h"}, Options(starvation_s=1000 * HOUR)),
        ({"starvation": 1000 * 3600}, Options(starvation_s=1000 * HOUR)),
        ({"faithful": True}, Options(faithful=True, starvation_s=1000 * HOUR)),
        ({"quota": "a=1,b=2"}, Options(quota={"a": 1.0, "b": 2.0})),
        ({"quota": ["a=1", "b=2"]}, Options(quota={"a": 1.0, "b": 2.0})),
        ({"quota": {"a": 1}}, Options(quota={"a": 1.0})),
        ({"split": "1,2,3"}, Options(split=(1, 2, 3))),
        ({"gpus": "1:8"}, Options(gpus=(1, 8))),
        ({"gpus": "4"}, Options(gpus=(4, 4))),
        ({"between": "2d:9d"}, Options(between_s=(2 * 24 * HOUR, 9 * 24 * HOUR))),
        ({"tenant": "a"}, Options(tenant=("a",))),
        ({"profiles": ["a", "b"]}, Options(profiles=("a", "b"))),
        ({"recorded_on": "K80"}, Options(recorded_on="K80")),
        ({"skip_infeasible": True}, Options(skip_infeasible=True)),
        ({"window": "5:9"}, Options(window=(5, 9))),
        ({"arrivals": "static"}, Options(arrivals="static", static=True)),
    ],
)
def test_text_and_values_give_the_same_options(given: dict[str, Any], want: Options) -> None:
    assert make_options(given) == want
    assert replace(want) == want


def test_failures_are_read_where_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("node,at,down\n3,12h,45m\n")
    assert make_options({"failures": str(tmp_path / "f.csv")}).failures == (Failure(3, 12 * HOUR, 2700.0),)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"round": 0}, "field round: 0 should be greater than"),
        ({"round": float("nan")}, "field round: nan should be"),
        ({"round": "1" * 400}, "is beyond"),
        ({"load": float("inf")}, "field load: inf should be a finite number"),
        ({"load": "nan"}, "field load: 'nan' should be a finite number"),
        ({"failure_rate": float("nan")}, "field failure_rate: nan should be a finite number"),
        ({"quota": {"a": float("nan")}}, "field quota"),
        ({"starvation": "never"}, "field starvation: 'never' is not a number with a unit"),
        ({"starvation": 0}, "field starvation: 0 should be greater than 0"),
        ({"static": True, "arrivals": "exponential"}, "field arrivals: 'exponential' contradicts static"),
        ({"window": (0, 10**15)}, "the most jobs that gpuyard simulates"),
        ({"jobs": 10**12}, "field jobs"),
        ({"gpus": "8:1"}, "field gpus: '8:1' ends before it begins"),
        ({"between": "2d"}, "field between: '2d' must be FROM:UNTIL"),
        ({"restart_cost_s": 3}, "'restart_cost_s' is not a setting. Did you mean 'restart_cost'"),
    ],
)
def test_a_broken_rule_is_named_with_field_and_value(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as refused:
        make_options(given)
    assert says in str(refused.value)


def test_python_and_the_command_line_make_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = gpuyard.simulate(options=Options(jobs=30, cluster="2x8", policy="srtf+tune", restart_cost_s=60))
    with pytest.raises(SystemExit):
        main(
            ["simulate", "--jobs", "30", "--cluster", "2x8", "--policy", "srtf+tune", "--restart-cost", "1m", "--quiet"]
        )
    (folder,) = (tmp_path / "runs").iterdir()
    assert gpuyard.load_run(folder).jobs.equals(run.jobs)
    assert json.loads((folder / "run.json").read_text())["options"]["restart_cost_s"] == 60


@pytest.fixture
def own_model(tmp_path: Path) -> Path:
    (tmp_path / "mine.yaml").write_text(OWN_MODEL)
    (tmp_path / "trace.csv").write_text("0,mine,0,36000,1\n")
    return tmp_path


def test_a_model_of_ones_own_is_simulated(own_model: Path) -> None:
    trace, profiles = own_model / "trace.csv", own_model / "mine.yaml"
    run = gpuyard.simulate("1x8:cpus=48", trace, "fifo+tune", profiles=[profiles])
    assert run.jobs["finish_s"].item() == pytest.approx(2400)
    with pytest.raises(InputError, match="'mine' is not a known model"):
        gpuyard.simulate("1x8", trace)


@pytest.mark.parametrize("command", ["trace info trace.csv", "trace convert trace.csv a.yaml", "simulate --workload "
                                     "trace.csv --quiet", "sweep sweep.yaml --quiet"])  # fmt: skip
def test_every_command_knows_it(own_model: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(own_model)
    study = "axes: {policy: [fifo+tune]}\nfixed: {workload: trace.csv, cluster: 1x8, profiles: [mine.yaml]}"
    (own_model / "sweep.yaml").write_text(study)
    with pytest.raises(SystemExit) as end:
        main([*command.split(), *(() if "sweep" in command else ("--profiles", "mine.yaml"))])
    assert not end.value.code


def test_what_is_given_as_an_argument_and_as_an_option_is_refused() -> None:
    jobs = Workload.from_jobs([Job(0, 0.0, 1, "res18", duration_s=60)])
    with pytest.raises(InputError, match="field policy: 'las\\+tune' is an option about the policy"):
        gpuyard.simulate("1x8", jobs, "fifo+tune", Options(policy="las+tune"))
    with pytest.raises(InputError, match="field jobs: 5 is an option about the workload"):
        gpuyard.simulate("1x8", jobs, options=Options(jobs=5))
    with pytest.raises(InputError, match="field cluster"):
        prepare(Options(cluster="2x8"), cluster=gpuyard.Cluster.parse("1x8"))
