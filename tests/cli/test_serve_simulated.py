"""`gpuyard serve --world simulated` prints how services fared and keeps a run that the other commands read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.cli import main
from gpuyard.results import load_run

SIMULATED = ("serve", "--world", "simulated")
NAMES = ("resnet50", "vgg16", "faces")


def gpuyard(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    return int(ended.value.code or 0)


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tasks.yaml"
    path.write_text((Path(__file__).parents[2] / "examples" / "services.yaml").read_text())
    return path


def test_services_are_planned_for_and_served(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpuyard(*SIMULATED, tasks, "--load", "constant", "--seconds", "5", "--quiet") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["service", "requests", "per", "s", "violations", "ms", "ms", "ms"]
    assert [line.split()[0] for line in lines[3:]] == ["resnet50", "vgg16", "faces"]
    assert all("0.00%" in line for line in lines[3:])


@pytest.mark.parametrize("none", [("--scale", "0"), ("--seconds", "1e-300")])
def test_where_nobody_asks_there_are_dashes(
    tasks: Path, capsys: pytest.CaptureFixture[str], none: tuple[str, str]
) -> None:
    assert gpuyard(*SIMULATED, tasks, *none, "--quiet") == 0
    told = capsys.readouterr()
    assert [line.split()[1:4] for line in told.out.splitlines()[3:]] == [["0", "0.00", "–"]] * 3
    assert told.err == "0 requests: – not answered in time, 0.0/s in time, on – GPUs\n"


def test_a_plan_that_cannot_be_is_refused_before_it_is_served(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpuyard("plan", tasks, "--format", "json") == 0
    plan = json.loads(capsys.readouterr().out)
    plan["services"].append(plan["services"][0])
    (tasks.parent / "plan.json").write_text(json.dumps(plan))
    assert gpuyard(*SIMULATED, "plan.json") == 2
    assert "plan.json, field services: 'resnet50' stands twice" in capsys.readouterr().err


def test_a_model_that_nobody_knows_is_named_with_its_row(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks.write_text("gpuyard: services/1\nservices:\n  - {model: mine, rate_per_s: 5, slo_ms: 9}\n")
    assert gpuyard(*SIMULATED, tasks) == 2
    assert f"{tasks}, row 3, field model: 'mine' has no latency profile" in capsys.readouterr().err


def test_a_plan_without_slices_has_nothing_to_serve(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvloop", reason="gpuyard serve needs the extra 'serve'")
    assert gpuyard("plan", tasks, "--format", "json") == 0
    plan = json.loads(capsys.readouterr().out)
    (tasks.parent / "plan.json").write_text(json.dumps(plan | {"slices": []}))
    assert gpuyard("serve", "plan.json") == 2
    assert "plan.json, field slices: must have a slice at least" in capsys.readouterr().err


def test_a_run_can_be_reported_and_compared(tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.json"
    assert gpuyard("plan", tasks, "--format", "json") == 0
    plan.write_text(capsys.readouterr().out)
    for scale in ("1", "3"):
        assert gpuyard(*SIMULATED, plan, "--scale", scale, "--seconds", "10", "--format", "json", "--quiet") == 0
    served = [json.loads(line) for line in capsys.readouterr().out.replace("]\n[", "]\n\0[").split("\0")]
    assert served[0][0]["violations"] < 0.01 < served[1][0]["violations"]
    runs = sorted(str(each) for each in (tmp_path / "runs").iterdir())
    assert [Path(each).name for each in runs] == ["serve-poisson-load3-seed1", "serve-poisson-seed1"]
    assert gpuyard("compare", *reversed(runs)) == 0
    told = capsys.readouterr()
    assert "not in time" in told.out
    assert "poisson leaves" in told.err
    assert gpuyard("report", *runs, "--out", tmp_path / "page", "--quiet") == 0
    page = (tmp_path / "page" / "report.html").read_text()
    assert "Services" in page
    assert (tmp_path / "page" / "poisson-latency.png").exists()
    assert (tmp_path / "page" / "poisson-course.png").exists()


def test_why_says_in_one_line_that_there_are_no_jobs(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpuyard(*SIMULATED, tasks, "--seconds", "2", "--quiet") == 0
    capsys.readouterr()
    assert gpuyard("why", "runs/serve-poisson-seed1", "3") == 2
    assert capsys.readouterr().err.endswith("has no jobs, only requests and slices and services\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--load", "trace"), "field load: 'trace' follows a file"),
        (("--trace", "x.csv"), "field trace: 'x.csv' needs a load that follows a file: trace, fluctuating, file"),
        (("--load", "file", "--trace", "nowhere.csv"), "nowhere.csv"),
        (("--seconds", "0"), "field seconds: 0.0 must be above 0"),
        (("--scale", "-1"), "field scale: -1.0 must be"),
    ],
)
def test_wrong_input_is_one_line_and_leaves_nothing(
    tasks: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], complaint: str
) -> None:
    assert gpuyard(*SIMULATED, tasks, *arguments) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1
    assert not (tasks.parent / "runs").exists()


def test_rates_of_a_file_change_every_twenty_seconds(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, rates in {"resnet50": "50\n0\n", "vgg16": "0\n20\n", "faces": "0\n"}.items():
        (tasks.parent / f"{name}.txt").write_text(rates)
    files = [each for name in NAMES for each in ("--trace", f"{name}={name}.txt")]
    assert gpuyard(*SIMULATED, tasks, "--load", "fluctuating", *files, "--seconds", "40", "--quiet") == 0
    requests = load_run("runs/serve-fluctuating-seed1")["requests"]
    times = {name: requests.filter(requests["service"] == name)["arrival_s"].to_list() for name in NAMES}
    assert 900 < len(times["resnet50"]) < 1100
    assert max(times["resnet50"]) < 20 <= min(times["vgg16"])
    assert times["faces"] == []


def test_requests_of_a_file_are_served_as_they_are(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tasks.parent / "mine.csv").write_text("time_s,service\n0.5,vgg16\n0.1,faces\n")
    assert gpuyard(*SIMULATED, tasks, "--load", "file", "--trace", "mine.csv", "--format", "csv", "--quiet") == 0
    rows = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    assert {row[0]: row[3] for row in rows[1:]} == {"resnet50": "0", "vgg16": "1", "faces": "1"}


@pytest.mark.parametrize("option", [("--period", "5"), ("--preparation", "-1"), ("--http-port", "0")])
def test_options_of_a_server_are_refused(
    tasks: Path, capsys: pytest.CaptureFixture[str], option: tuple[str, str]
) -> None:
    assert gpuyard(*SIMULATED, tasks, *option) == 2
    assert "is for a server, not for --world simulated" in capsys.readouterr().err


def test_a_stage_that_stands_twice_is_an_error(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stages = "{a: resnet50, a: vgg16}"
    whole = f"gpuyard: services/1\napplications:\n  - {{name: t, rate_per_s: 10, slo_ms: 200, stages: {stages}}}\n"
    tasks.write_text(whole)
    assert gpuyard(*SIMULATED, tasks) == 2
    assert "tasks.yaml, row 3: 'a' stands twice in one entry" in capsys.readouterr().err
