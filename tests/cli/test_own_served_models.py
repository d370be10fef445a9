"""Profile files bring models of one's own to plans of slices, and to whoever serves these."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpuyard.cli import main
from gpuyard.profiles import find_gpu

PROFILES = """\
gpus:
  2080ti: {interference: [0, 1, 0, 0, 1]}
models:
  mynet:
    aliases: [my-network-v1]
    memory_mib: {8: 2000, 32: 3000, 64: 9000}
    serving: {input: [FP32, 3, 10, 10], output: [INT64, 5]}
    latency:
    - gpu: 2080ti
      slices: {1.0: {1: 4.0, 32: 31.0}, 0.5: {1: 7.0, 32: 62.0}}
      traffic: {1: [0.1, 0], 2: [0.1, 0], 4: [0.1, 0], 8: [0.2, 0], 16: [0.2, 0], 32: [0.2, 0]}
    - {gpu: A100, slices: {1.0: {1: 2.0, 32: 16.0}}}
"""
MINE = "{model: My-Network_v1, rate_per_s: 100, slo_ms: 100}"
FACES = "{model: resnet50, rate_per_s: 100, slo_ms: 108}"


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main([*map(str, args)])
    told = capsys.readouterr()
    return int(end.value.code or 0), told.out, told.err


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(PROFILES)
    for name, services in {"one": [MINE], "both": [MINE, FACES], "faces": [FACES]}.items():
        lines = "".join(f"- {each}\n" for each in services)
        (tmp_path / f"{name}.yaml").write_text(f"gpuyard: services/1\nservices:\n{lines}")
    return tmp_path


def planned(capsys: pytest.CaptureFixture[str], *args: object) -> dict[str, Any]:
    code, out, err = run(capsys, "plan", *args, "--format", "json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_model_of_a_profile_file_is_planned_by_any_of_its_names(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = planned(capsys, "both.yaml", "--profiles", "mine.yaml")
    assert [each["model"] for each in plan["services"]] == ["mynet", "resnet50"]
    assert {each["share"] for each in plan["slices"]} <= {0.5, 1.0}  # on others mynet was not measured
    device = plan["devices"]["RTX2080Ti"]
    assert (device["interference"], device["memory_mb"]) == ([0, 1, 0, 0, 1], 11000)  # where the file says nothing
    mine = device["models"]["mynet"]
    assert mine["latency_ms"] == {"100": {"1": 4.0, "32": 31.0}, "50": {"1": 7.0, "32": 62.0}}
    assert mine["memory_mb"] == 3000 * 2**20 / 1e6  # the peak of batches that may be planned
    assert (mine["input"], mine["traffic"]["8"]) == (["FP32", [3, 10, 10]], [0.2, 0.0])
    assert device["models"]["resnet50"]["memory_mb"] == 1820


def test_a_gpu_type_with_nothing_but_a_data_sheet_has_neighbours_that_disturb_nobody(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = planned(capsys, "one.yaml", "--profiles", "mine.yaml", "--gpus", "1xA100")
    device = plan["devices"]["A100"]
    assert (device["interference"], list(device["models"])) == ([0, 0, 0, 0, 1], ["mynet"])
    assert device["memory_mb"] == find_gpu("A100").memory_bytes / 1e6
    assert set(map(tuple, device["models"]["mynet"]["traffic"].values())) == {(0.0, 0.0)}


def test_models_that_nobody_asks_for_change_no_plan(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mine.yaml").write_text(PROFILES.partition("models:")[1] + PROFILES.partition("models:")[2])
    alone, beside = planned(capsys, "faces.yaml"), planned(capsys, "faces.yaml", "--profiles", "mine.yaml")
    assert "mynet" not in beside["devices"]["RTX2080Ti"]["models"]
    assert {**beside, "devices": None} == alone


def test_a_plan_is_served_without_the_profile_file_and_services_with_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = planned(capsys, "one.yaml", "--profiles", "mine.yaml", "--gpus", "4x2080ti")
    (folder / "plan.json").write_text(json.dumps(plan))
    served = []
    for what in (("plan.json",), ("one.yaml", "--profiles", "mine.yaml")):
        code, out, _ = run(capsys, "serve", *what, "--world", "simulated", "--seconds", "2", "--format", "json")
        assert code == 0
        served.append(json.loads(out)[0]["services"])
    assert served[0] == served[1]
    assert served[0][0]["requests"] > 100


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("plan", "one.yaml"), "one.yaml, row 3, field model: 'My-Network_v1' has no latency profile on RTX2080Ti"),
        (("plan", "one.yaml", "--profiles", "mine.yaml", "--gpus", "3080"), "'mynet' has no latency profile on 3080"),
        (("plan", "one.yaml", "--profiles", "short.yaml"), "row 3, field model: 'mynet' has no latency of batch 32 on"),
        (("plan", "one.yaml", "--profiles", "nowhere.yaml", "--gpus", "xpu"), "'xpu' has no data sheet that says how"),
        (("plan", "one.yaml", "--profiles", "mine.yaml", "--devices", "d.json"), "cannot go with --profiles"),
        (("plan", "one.yaml", "--profiles", "none.yaml"), "none.yaml: cannot be read as a profile file"),
        (("serve", "plan.json", "--profiles", "mine.yaml", "--world", "simulated"), "cannot go with a plan"),
    ],
)
def test_what_cannot_be_planned_for_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], said: str
) -> None:
    (folder / "short.yaml").write_text(PROFILES.replace("32: 62.0", "16: 31.0"))
    (folder / "nowhere.yaml").write_text(PROFILES.replace("A100", "xpu"))
    code, out, err = run(capsys, *args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
