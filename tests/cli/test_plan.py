"""`gpuyard plan`: a plan as other programs read it, and one line about whatever is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpuyard.cli import main

LIST = "2\n7,50,108,\n9,50,142,\n"


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["plan", *map(str, args)])
    told = capsys.readouterr()
    return int(end.value.code or 0), told.out, told.err


def planned(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, dict[str, Any]]:
    code, out, _ = run(capsys, *args, "--format", "json")
    return code, json.loads(out)


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.csv"
    path.write_text(LIST)
    return path


def test_a_plan_as_json(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, plan = planned(capsys, tasks, "--gpus", "2x2080ti")
    assert (code, plan["feasible"], plan["gpus_used"]) == (0, True, 1)
    assert (plan["violations"], plan["unserved"]) == ([], [])
    [resnet] = [model for each in plan["slices"] for model in each["models"] if model["model"] == "resnet50"]
    assert {"model", "batch", "rate", "predicted_latency_ms", "slo_ms"} < set(resnet)
    assert (resnet["rate"], resnet["slo_ms"]) == (50, 108)
    assert resnet["predicted_latency_ms"] <= 108
    for each in plan["slices"]:
        assert {"gpu", "share", "duty_ms", "models"} < set(each)


def test_an_application_that_would_be_late_as_a_whole_is_told_of_with_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = "{find: {model: ssd-mobilenetv1, slo_ms: 100}, faces: {model: vgg16, after: find, slo_ms: 102}}"
    entry = f"{{name: traffic, rate_per_s: 460, slo_ms: 202, stages: {stages}}}"
    (tmp_path / "s.yaml").write_text(f"gpuyard: services/1\napplications:\n  - {entry}\n")
    code, plan = planned(capsys, tmp_path / "s.yaml")
    assert (code, plan["unserved"]) == (3, [])
    assert plan["applications"][0]["predicted_latency_ms"] > 202
    [late] = plan["violations"]
    assert late.startswith("traffic: ms until the last stage answers: ")
    _, _, told = run(capsys, tmp_path / "s.yaml")
    assert f"not kept: {late}" in told


def test_what_cannot_be_served_has_a_reason_and_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text("1\n9,50,10,\n")
    code, plan = planned(capsys, tmp_path / "t.csv")
    assert (code, plan["feasible"], plan["slices"]) == (3, False, [])
    [missing] = plan["unserved"]
    assert (missing["model"], missing["rate"]) == ("vgg16", 50)
    assert missing["reason"].startswith("even one request on a whole GPU takes up to 16.5 ms")


def test_the_published_planner_writes_the_sample_of_the_original(
    tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = planned(capsys, tasks, "--gpus", "2x2080ti", "--faithful", "--output", tmp_path / "ModelList.txt")
    assert code == 0
    lines = [line.split(",") for line in (tmp_path / "ModelList.txt").read_text().splitlines()]
    assert [line[:5] for line in lines] == [
        ["0", "40", "0", "vgg16", "6"], ["0", "60", "0", "reserved", "32"],
        ["1", "20", "0", "resnet50", "5"], ["1", "80", "0", "reserved", "32"],
    ]  # fmt: skip
    assert [float(line[5]) for line in lines] == pytest.approx([88.235291, 0, 73.529411, 0], rel=1e-6)


def test_where_it_finds_no_plan_the_list_is_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_text("1\n9,5000,142,\n")
    code, plan = planned(capsys, tmp_path / "t.csv", "--faithful", "--output", tmp_path / "out")
    assert (code, plan["feasible"]) == (3, False)
    assert (tmp_path / "out").read_text() == "EMPTY\n"


def test_latencies_of_one_s_own(tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{name},{percent},{batch},{ms}" for name in ("resnet50", "vgg16") for percent in (20, 40, 50, 60, 80, 100)
            for batch, ms in ((1, 1.0), (32, 2.0))]  # fmt: skip
    (tmp_path / "mine.csv").write_text("\n".join(rows) + "\n")
    _, plan = planned(capsys, tasks, "--profile", tmp_path / "mine.csv")
    assert all(model["predicted_latency_ms"] < 60 for each in plan["slices"] for model in each["models"])


@pytest.mark.parametrize(
    ("text", "args", "says"),
    [
        ("3\n7,50,108,\n", [], "tasks.csv, row 1: '3' must be the number of tasks, of which 1 follow"),
        ("1\n7,50\n", [], "tasks.csv, row 2: '7,50' must be model_id,rate,slo_ms,"),
        ("1\n77,50,108,\n", [], "tasks.csv, row 2, field model_id: '77' is not the number of a model, 0 to 13"),
        ("1\n7,many,108,\n", [], "tasks.csv, row 2, field rate: 'many' is not a number"),
        ("1\n7,-1,108,\n", [], "tasks.csv, row 2, field rate_per_s: -1.0 must be a finite number above 0"),
        ("2\n7,50,108,\n7,20,108,\n", [], "tasks.csv, row 3, field service_id: 'resnet50' stands twice"),
        ("1\n7,0,108,\n", [], "tasks.csv: names no service with a rate above 0"),
        ("1\n7,123456789012345678901234567890,108,\n", [], "row 2, field rate_per_s: 1.2345678901234568e+29 is beyond"),
        (LIST, ["--policy", "elastic:tail=2"], "field partition, tail: '2' must be from 0.5 to 0.9999"),
        (LIST, ["--policy", "exhaustive", "--faithful", "--gpus", "9x2080ti"], "field gpus: 9 GPUs are more than"),
        (LIST, ["--gpus", "4x9999"], "field gpus: '9999' has no latency profile"),
        (LIST, ["--policy", "nope"], "field policy: 'nope' is not a partition policy"),
        (LIST, ["--policy", "nope", "--faithful"], "field policy: 'nope' has no published variant"),
        (LIST, ["--buffer", "0.5"], "field buffer: 0.5"),
        (LIST, ["--minimise", "gpus", "--faithful"], "field minimise: 'gpus' cannot go with --faithful"),
        (LIST, ["--output", "tasks.csv"], "field output: 'tasks.csv' is read, and cannot be written to as well"),
        (LIST, ["--picture", "./tasks.csv"], "field picture: 'tasks.csv' is read"),
        (LIST, ["--output", "no/x.txt"], "field output: 'no/x.txt' is in a folder that does not exist"),
        (LIST, ["--picture", "no/x.png"], "field picture: 'no/x.png' is in a folder that does not exist"),
        (LIST, ["--minimise", "cost"], "field minimise: 'cost' is nothing that can be minimised; gpus can"),
        (LIST, ["--profile", "none.csv"], "none.csv: cannot be read as a latency profile"),
    ],
)
def test_what_is_wrong_is_one_line(
    text: str, args: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("tasks.csv").write_text(text)
    code, out, err = run(capsys, "tasks.csv", *args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("tasks.csv", text)]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("resnet50,20,1", "row 1: has 3 fields"),
        ("resnet50,0,1,5", "row 1, field percent: '0' must be a whole number from 1 to 100"),
        ("resnet50,20,64,5", "row 1, field batch: '64' must be a whole number from 1 to 32"),
        ("resnet50,20,1,nan", "row 1, field latency_ms: 'nan' must be a number above 0"),
        ("resnet50,20,1,5\nresnet50,20,1,6", "row 2, field batch: 1 stands twice"),
        ("# nothing", "has no latencies"),
        ("resnet50,20,1,5\nresnet50,20,32,9", "'resnet50' has no latency on the whole GPU, 100 %"),
        ("resnet50,100,1,5", "'resnet50' has no latency of batch 32 on 100 % of the GPU"),
    ],
)
def test_what_is_wrong_with_a_profile_is_one_line(
    row: str, says: str, tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.csv").write_text(row + "\n")
    code, _, err = run(capsys, tasks, "--profile", tmp_path / "mine.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert says in err


def test_services_in_yaml(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = "gpuyard: services/1\nservices:\n"
    (tmp_path / "s.yaml").write_text(head + "  - {service_id: faces, model: ResNet-50, rate_per_s: 0.5, slo_ms: 200}\n")
    code, plan = planned(capsys, tmp_path / "s.yaml")
    assert (code, plan["slices"][0]["models"][0]["service"]) == (0, "faces")
    wrong = {
        "{model: resnet50, rate: 5}": "'rate' is not a field",
        "{model: a, slo_ms: 5}": "missing",
        "{model: [1], rate_per_s: 5, slo_ms: 9}": "field service_id: [1] must be text",
        "{model: vgg16, rate_per_s: fast, slo_ms: 9}": "field rate_per_s: 'fast' must be a finite number above 0",
        "{model: vgg16, rate_per_s: 123456789012345678901234567890, slo_ms: 9}": "is beyond 1e+09",
        '{service_id: "a\\e[31m", model: vgg16, rate_per_s: 5, slo_ms: 9}': "field service_id: 'a\\x1b[31m' must be",
        "{model: vgg16, rate_per_s: 5, slo_ms: 9, tenant: me}": "'tenant' is not a field",
        "{model: vgg16, rate_per_s: 5, slo_ms: 9, priority: high}": "field priority: 'high' must be a whole number",
        "{model: vgg16, rate_per_s: 5, slo_ms: 9, gpu_types: [a]}": "field gpu_types: ['a'] must be text",
        "{model: vgg16, rate_per_s: 5, slo_ms: 9, gpu_types: 3080}": "In YAML, put it in quotes: '3080'",
        "{model: mine, rate_per_s: 5, slo_ms: 9}": "s.yaml, row 3, field model: 'mine' has no latency profile",
        "{model: vgg16, rate_per_s: 5, slo_ms: 1:30}": "row 3, field slo_ms: '1:30' is a number to the base of 60",
        "{model: vgg16, rate_per_s: 5, slo_ms: " + "[" * 100_000: "s.yaml, row 3: is nested too deeply",
    }
    for entry, says in wrong.items():
        (tmp_path / "s.yaml").write_text(head + f"  - {entry}\n")
        code, _, err = run(capsys, tmp_path / "s.yaml")
        assert (code, err.count("\n")) == (2, 1)
        assert says in err


def test_a_model_that_nobody_knows_is_refused_by_the_published_planner_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "gpuyard: services/1\nservices:\n"
    (tmp_path / "s.yaml").write_text(head + "  - {model: mine, rate_per_s: 50, slo_ms: 200}\n")
    code, _, err = run(capsys, tmp_path / "s.yaml", "--faithful")
    assert (code, "field model: 'mine' has no latency profile" in err) == (2, True)


def test_more_headroom_can_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One GPU is enough for a mean of 300 requests a second, not if only 1 of 10,000 may be late."""
    (tmp_path / "t.csv").write_text("1\n9,300,142,\n")
    args = (tmp_path / "t.csv", "--gpus", "1x2080ti", "--policy")
    assert planned(capsys, *args, "elastic:tail=0.5")[1]["unserved"] == []
    code, plan = planned(capsys, *args, "elastic:tail=0.9999")
    assert (code, plan["unserved"][0]["rate"]) == (3, 0)
    assert plan["unserved"][0]["reason"].startswith("its rate is served, but not its peaks")
