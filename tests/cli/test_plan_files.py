"""`gpuyard plan` with gpulet's own files, from an existing plan, and beside what would be."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gpuyard.cli import main
from gpuyard.cli.plan_settings import PlanOptions, planned, planned_from
from gpuyard.core.service import Service
from gpuyard.policies.partition.moves import moves
from gpuyard.traces.services import Asked, model_list, read_asked

SERVICES = """gpuyard: services/1
services:
  - {model: resnet50, rate_per_s: 200, slo_ms: 108}
  - {model: vgg16, rate_per_s: 100, slo_ms: 142}
"""
APPLICATION = """gpuyard: services/1
applications:
  - name: traffic
    rate_per_s: 50
    slo_ms: 202
    stages: {find: ssd-mobilenetv1, cars: {model: googlenet, after: find}, faces: {model: vgg16, after: find}}
"""


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["plan", *map(str, args)])
    told = capsys.readouterr()
    return int(end.value.code or 0), told.out, told.err


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    path = tmp_path / "services.yaml"
    path.write_text(SERVICES)
    return path


def scheduler(folder: Path, **changes: Any) -> Path:
    content = {"GPUs": [{"Type": "2080ti", "Num": 4}], "Max Model": 3, "Part": 1, "Latency Ratio": 1.1,
               "Interference": 1, "Incremental": 1} | changes  # fmt: skip
    path = folder / "sched.json"
    path.write_text(json.dumps(content))
    return path


def resources(folder: Path, data: Path) -> Path:
    """gpulet's resource directory with a device file in it."""
    (folder / "2080ti").mkdir(parents=True)
    shutil.copy(data / "latency_profile_synthetic_2080ti.csv", folder / "2080ti" / "latency.csv")
    shutil.copy(data / "util_2080ti.csv", folder / "2080ti" / "UTIL.CSV")
    with (data / "interference_coefficients.csv").open() as lines:
        head, *numbers = csv.reader(line for line in lines if not line.startswith("#"))
    [row] = [each for each in numbers if each[0] == "2080ti"]
    (folder / "2080ti" / "INT_MODEL_CONSTANT.CSV").write_text(",".join(head[1:]) + "\n" + ",".join(row[1:]) + "\n")
    spec = {"type": "2080ti", "mem_mb": 11000, "latency_prof_file": "2080ti/latency.csv",
            "interference_const_file": "2080ti/INT_MODEL_CONSTANT.CSV",
            "interference_util_file": "2080ti/UTIL.CSV"}  # fmt: skip
    (folder / "device-config.json").write_text(json.dumps({"device_specs": [spec]}))
    return folder / "device-config.json"


SETTINGS: dict[str, dict[str, Any]] = {
    "gpulet-int": {},
    "gpulet-noint": {"Interference": 0},
    "greedy_part": {"Interference": 0, "Self Tuning": 1, "No Check": 1},
    "timesharing_only": {"Interference": 0, "Part": 0},
    "shipped-2gpu": {"GPUs": [{"Type": "2080ti", "Num": 2}], "SLO Ratio": 1.0},
}


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / name).open() as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def test_the_original_s_files_give_its_placements(shared_data: Path, tmp_path: Path) -> None:
    data = shared_data / "gpulet"
    devices = resources(tmp_path / "resource", data)
    lists: dict[str, list[str]] = {}
    for row in table(data, "baseline_inputs.csv"):
        lists.setdefault(row["scenario"], []).append(f"{row['model_id']},{row['rate_rps']},{row['slo_ms']},")
    wanted: dict[tuple[str, str, str], list[str]] = {}
    for row in table(data, "baseline_schedules.csv"):
        line = ",".join(row[each] for each in ("gpu", "partition_pct", "dedup", "model", "batch"))
        wanted.setdefault((row["scenario"], row["config"], row["full_search"]), []).append(line)
    for case in table(data, "baseline_runs.csv"):
        key = (case["scenario"], case["config"], case["full_search"])
        tasks = tmp_path / "tasks.csv"
        tasks.write_text("\n".join([str(len(lists[key[0]])), *lists[key[0]]]) + "\n")
        policy = "exhaustive" if key[2] == "1" else None
        file = scheduler(tmp_path, Avail_Parts=[20, 40, 50, 60, 80, 100], **SETTINGS[key[1]])
        options = PlanOptions(None, policy, None, None, None, None, True, file, devices)
        found, _ = planned(read_asked(tasks), options)
        lines = model_list(found.plan).splitlines()
        assert [line.rpartition(",")[0] or line for line in lines] == wanted.get(key, ["EMPTY"]), key


def test_options_come_before_the_scheduler_file_and_say_so(
    tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = scheduler(tmp_path, Avail_Parts=[50, 100])
    code, out, err = run(capsys, tasks, "--scheduler", file, "--gpus", "3x2080ti", "--format", "json")
    plan = json.loads(out)
    assert (code, plan["gpus"][0]["count"], plan["buffer"]) == (0, 3, 1.1)
    assert {each["share"] for each in plan["slices"]} <= {0.5, 1.0}  # no others are to be cut
    assert f"--gpus 3x2080ti counts, not 4x2080ti of {file}" in err
    assert f"{file}: has no effect, nor has it in gpulet: Incremental" in err


def test_a_plan_with_gpu_types_of_one_s_own_is_a_whole_file(
    tasks: Path, tmp_path: Path, shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    devices = resources(tmp_path / "resource", shared_data / "gpulet")
    _, out, _ = run(capsys, tasks, "--devices", devices, "--format", "json")
    (tmp_path / "plan.json").write_text(out)
    code, again, _ = run(capsys, tasks, "--from", tmp_path / "plan.json", "--format", "json")
    assert code == 0
    assert json.loads(again)["moves"] == []
    assert json.loads(again)["slices"] == json.loads(out)["slices"]


def test_a_plan_from_another_keeps_what_it_can(tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.json").write_text(run(capsys, tasks, "--format", "json")[1])
    tasks.write_text(SERVICES.replace("100,", "700,"))
    code, _, err = run(capsys, tasks, "--from", tmp_path / "plan.json")
    assert code == 0
    assert "load vgg16 onto the slice of" in err
    assert "resnet50 onto" not in err
    code, _, err = run(capsys, tasks, "--from", tmp_path / "plan.json", "--gpus", "2x2080ti")
    assert (code, "field gpus: '2x2080ti' cannot go with --from: the plan has its own" in err) == (2, True)


def test_who_asks_for_the_fewest_gpus_gets_them_however_many_moves_that_takes() -> None:
    """Each GPU less is worth eight moves to a server; here one takes twelve."""
    rates = {
        ("densenet161", 202): (124, 37), ("vgg16", 142): (105, 52), ("ssd-mobilenetv1", 202): (64, 32),
        ("mobilenet_v2", 64): (100, 50), ("mnasnet1_0", 62): (93, 9), ("mnasnet1_0-2", 62): (181, 54),
        ("googlenet", 66): (58, 29), ("bert", 22): (223, 22), ("resnet50", 108): (124, 37), ("bert-2", 22): (147, 74),
    }  # fmt: skip
    first, then = (
        Asked(tuple(Service(name, name.removesuffix("-2"), pair[k], slo) for (name, slo), pair in rates.items()))
        for k in (0, 1)
    )
    before, _ = planned(first, PlanOptions("4x2080ti"))
    kept, fewest = (planned_from(before, then, PlanOptions(None, minimise=each))[0] for each in (None, "gpus"))
    assert (kept.plan.gpus, moves(before, kept)) == (before.plan.gpus, ())
    assert fewest.plan.gpus < kept.plan.gpus
    assert len(moves(before, fewest)) > 8
    assert not fewest.plan.unserved
    assert not fewest.violations()


def test_what_would_be(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, tasks, "--what-if", "+100%", "--format", "json")
    present, more = json.loads(out)["outlooks"]
    assert code == 0
    assert (present["plan"], present["requests_per_s"], more["requests_per_s"]) == ("present", 300, 600)
    assert more["fits_until_factor"] == pytest.approx(present["fits_until_factor"] / 2, rel=0.03)
    _, out, _ = run(capsys, tasks, "--what-if", "resnet50=300", "--what-if", "+bert:50:22", "--format", "json")
    more = json.loads(out)["outlooks"][1]
    assert more["requests_per_s"] == 450
    assert any("load bert" in move for move in more["moves"])


def test_an_application_answers_within_its_slo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "app.yaml").write_text(APPLICATION)
    code, out, _ = run(capsys, tmp_path / "app.yaml", "--format", "json")
    plan = json.loads(out)
    [traffic] = plan["applications"]
    assert (code, plan["violations"]) == (0, [])
    find, cars, faces = (each["predicted_latency_ms"] for each in traffic["stages"])
    assert traffic["predicted_latency_ms"] == pytest.approx(find + max(cars, faces))
    assert traffic["predicted_latency_ms"] <= 202
    (tmp_path / "plan.json").write_text(out)
    code, out, err = run(capsys, tmp_path / "app.yaml", "--from", tmp_path / "plan.json")
    assert (code, "no moves" in err, "traffic: answers within" in err) == (0, True, True)


def test_headroom_is_what_slices_can_do_beside_the_rate(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = json.loads(run(capsys, tasks, "--format", "json")[1])
    for service in plan["services"]:
        turns = [model for each in plan["slices"] for model in each["models"] if model["service"] == service["service"]]
        assert service["headroom"] == pytest.approx(sum(turn["headroom"] for turn in turns))
        assert service["headroom"] == pytest.approx(service["capacity"] - service["rate"])
        assert service["predicted_latency_ms"] == max(turn["predicted_latency_ms"] for turn in turns)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--what-if", "more"], "field what-if: 'more' is no change. Write +20%, resnet50=300 or +bert:50:22"),
        (["--what-if", "-100%"], "field what-if: '-100%' leaves no requests"),
        (["--what-if", "bret=5"], "field what-if: 'bret=5' names no service"),
        (["--what-if", "+bert:0:5"], "field what-if: '+bert:0:5' must have numbers above 0"),
        (["--rate", "5"], "field rate: is for gpulet's applications"),
        (["--rate", "a=b"], "field rate: 'a=b' must be a number above 0, or APP=NUMBER"),
        (["--scheduler", "none.json"], "none.json: does not exist"),
        (["--devices", "none.json"], "none.json: cannot be read as a device file"),
        (["--from", "none.json"], "none.json: cannot be read"),
        (["--picture", "plan.gif"], "field picture: 'plan.gif' must end with .png or .svg"),
    ],
)
def test_what_is_wrong_is_one_line(
    args: list[str], says: str, tasks: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tasks.parent)
    code, out, err = run(capsys, tasks, *args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


def _application(stages: str, name: str = "app") -> str:
    return f"applications:\n  - {{name: {name}, rate_per_s: 10, slo_ms: 200, stages: {{{stages}}}}}\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            _application("infer: lenet"),
            "row 3, field name: 'app/infer' cannot be served: its path is that of something",
        ),
        (_application("versions: lenet"), "'app/versions' cannot be served"),
        (_application("..: lenet"), "'app/..' cannot be served: between slashes there must be something"),
        (_application("a: lenet", "stats"), "'stats' cannot be served"),
        (_application("a: lenet", "x//y"), "'x//y' cannot be served"),
        ("services:\n  - {model: lenet, rate_per_s: 1e3, slo_ms: 20}\n", "'1e3' must be a finite number above 0"),
        ("services:\n  - {model: lenet, rate_per_s: 1e3, slo_ms: 20}\n", "It is text: write 1000 without quotes"),
        ("services:\n  - {model: lenet, rate_per_s: 1e-5, slo_ms: 20}\n", "It is text: write 0.00001 without quotes"),
        (_application("a: {model: lenet, per_request: '2'}"), "It is text: write 2 without quotes"),
        (_application(", ".join(f"s{k}: lenet" for k in range(101))), "field stages: 101 are too many: at most 100"),
    ],
)
def test_what_could_not_be_served_is_not_planned(
    content: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = tmp_path / "tasks.yaml"
    tasks.write_text("gpuyard: services/1\n" + content, encoding="utf-8")
    code, out, err = run(capsys, tasks)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err
