"""gpuyard gpus and gpuyard profiles on the command line."""

import csv
import io
import json
from pathlib import Path

import pytest

from gpuyard.cli import load_command
from gpuyard.core.errors import InputError
from gpuyard.profiles import find_step_profile, gpu_kinds
from gpuyard.profiles.inference import serving_gpu


@pytest.fixture(autouse=True)
def _no_profiles_of_one_s_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUYARD_PROFILES", str(tmp_path / "own"))


def gpuyard(command: str, *args: object) -> None:
    load_command(command).main([str(arg) for arg in args], standalone_mode=False)


def test_gpus_as_table_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    gpuyard("gpus")
    assert "Tesla V100-PCIE-32GB" in capsys.readouterr().out
    gpuyard("gpus", "--format", "json")
    rows = json.loads(capsys.readouterr().out)
    assert [row["gpu"] for row in rows] == [kind.key for kind in gpu_kinds()]
    assert {row["gpu"]: row["step_times"] for row in rows}["H100"] == "estimate"


def test_list_has_a_row_for_each_model_with_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    gpuyard("profiles", "list", "--format", "json")
    rows = {row["model"]: row for row in json.loads(capsys.readouterr().out)}
    assert len(rows) == 13 + 36 - 5 + 2  # of those that are served, two have no steps
    assert rows["res50"]["also"] == ["resnet50"]
    assert rows["res50"]["throughput"] == rows["gnmt"]["throughput"] == "on V100"
    assert rows["res50"]["steps"] == rows["vgg16"]["steps"] == ["K80", "M40", "P100", "V100", "RTX6000", "A100"]
    assert (rows["vgg16"]["throughput"], rows["gnmt"]["steps"]) == ("", [])


def test_show_has_latencies_by_batch_and_slice(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    gpuyard("profiles", "show", "ResNet-50", "--gpu", "2080ti", "--slices", "--format", "json")
    shown = json.loads(capsys.readouterr().out)
    assert (shown["model"], shown["gpu"], shown["gpu_memory_mb"]) == ("res50", "RTX2080Ti", 11000)
    assert list(shown["interference"]) == ["own_l2", "other_l2", "own_dram", "other_dram", "constant"]
    [row] = [row for row in shown["rows"] if row["batch"] == 8]
    planned = serving_gpu("2080ti").models["resnet50"]
    slices = {f"ms_{percent}": planned.latency_ms[percent][8] for percent in (20, 40, 50, 60, 80, 100)}
    assert row == {"batch": 8, **slices, "l2": 0.258046104, "dram": 0.513245261}
    (tmp_path / "mine.yaml").write_text("models: {mine: {latency: [{gpu: A100, slices: {0.5: {1: 3}, 1: {2: 4}}}]}}")
    gpuyard(
        "profiles", "show", "mine", "--gpu", "a100", "--slices", "--profiles", tmp_path / "mine.yaml", "--format", "csv"
    )
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert rows == [{"batch": "1", "ms_50": "3.0", "ms_100": "", "l2": "", "dram": ""},
                    {"batch": "2", "ms_50": "", "ms_100": "4.0", "l2": "", "dram": ""}]  # fmt: skip
    with pytest.raises(InputError, match=r"'h100' has no latencies of res50. Kinds that have: RTX2080Ti, 3080"):
        gpuyard("profiles", "show", "res50", "--gpu", "h100", "--slices")
    with pytest.raises(InputError, match="needs the GPU kind"):
        gpuyard("profiles", "show", "res50", "--slices")


@pytest.mark.parametrize("name", ["res50", "resnet50"])
def test_show_has_all_parts_of_a_model_in_one_place(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    gpuyard("profiles", "show", name)
    text = capsys.readouterr().out
    assert "ResNet-50" in text
    assert "1.15 at best, with 4 CPUs" in text
    assert "on RTX2080Ti: slices of 20, 40, 50, 60, 80, 100 %, batches of 1 to 32" in text
    assert "1820 MB; brings FP32 3x224x224, gets FP32 1000" in text
    assert "by the traffic of both on slices of RTX2080Ti, 3080" in text
    assert "fp32 on K80, M40, P100, V100, RTX6000, A100; source: GPEmu" in text
    gpuyard("profiles", "show", name, "--format", "json")
    shown = json.loads(capsys.readouterr().out)
    assert shown["throughput"][3][1] == 1.15
    speeds = {row["gpu"]: row for row in shown["rows"]}
    assert (speeds["V100"]["speed"], speeds["V100"]["known"]) == (1.0, "reference")
    assert (speeds["A100"]["known"], speeds["H100"]["known"]) == ("measured", "estimated")
    assert speeds["K80"]["speed"] < 0.2 < 2 < speeds["A100"]["speed"]


def test_show_as_json_is_an_object_with_rows(capsys: pytest.CaptureFixture[str]) -> None:
    gpuyard("profiles", "show", "resnet50", "--gpu", "k80", "--format", "json")
    shown = json.loads(capsys.readouterr().out)
    rows = {row["batch"]: row for row in shown.pop("rows")}
    assert rows[64]["step_ms"] == pytest.approx(1213.53)
    assert rows[64]["images_per_s"] == pytest.approx(64 / 1.21353)
    assert rows[64]["peak_mib"] == pytest.approx(5602.3)
    assert (rows[64]["time"], rows[256]["time"]) == ("measured", "predicted")
    assert (shown["model"], shown["gpu"], shown["precision"]) == ("resnet50", "K80", "fp32")
    assert "gpemu" in shown["source"]


def test_show_as_table_names_the_source_and_as_csv_only_rows(capsys: pytest.CaptureFixture[str]) -> None:
    gpuyard("profiles", "show", "vgg16", "--gpu", "A100")
    assert "vgg16 on A100 in fp32, source: GPEmu" in capsys.readouterr().out
    gpuyard("profiles", "show", "vgg16", "--gpu", "A100", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [int(row["batch"]) for row in rows] == list(find_step_profile("A100", "vgg16").batches)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["show", "gnmt", "--gpu", "V100"], "'gnmt' has no step profile"),
        (["show", "res51"], "'res51' is not a model gpuyard has a profile of. Did you mean 'res50'"),
        (["show", "resnet50", "--gpu", "V10"], "'V10' is not a GPU kind gpuyard knows"),
        (["import", "none.yaml"], "none.yaml: cannot be read as a step profile file"),
        (["fit", "none.csv"], "none.csv: cannot be read as a table of measurements"),
    ],
)
def test_what_is_wrong_is_said(args: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        gpuyard("profiles", *args)
    assert message in str(caught.value)


def test_measurements_become_a_profile_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"A100,{model},{batch},{batch / 100},{batch / 50}" for model in ("a", "b") for batch in (1, 2, 4, 8)]
    (tmp_path / "m.csv").write_text("\n".join(["gpu,model,batch_size,forward_s,backward_s", *rows]))
    gpuyard("profiles", "fit", tmp_path / "m.csv", "--out", tmp_path / "out", "--precision", "fp16", "--format", "json")
    fits = json.loads(capsys.readouterr().out)
    assert [(fit["model"], fit["held_out"]) for fit in fits] == [("a", 2), ("b", 2)]
    assert fits[0]["piecewise_error_pct"] == pytest.approx(0)
    gpuyard("profiles", "import", tmp_path / "out" / "b.yaml")
    assert "b@A100-fp16.yaml: imported" in capsys.readouterr().err
    assert find_step_profile("A100", "b", precision="fp16").at(6).step_s == pytest.approx(0.18)
    gpuyard("profiles", "list", "--format", "json")
    (row,) = [row for row in json.loads(capsys.readouterr().out) if row["model"] == "b"]
    assert (row["steps"], row["precisions"]) == (["A100"], ["fp16"])


def test_a_model_whose_name_makes_no_file_name_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("gpu,model,batch_size,forward_s,backward_s\nA100,a,1,1,1\nA100,../b,1,1,1\n")
    with pytest.raises(InputError, match="must begin with a letter or digit"):
        gpuyard("profiles", "fit", tmp_path / "m.csv", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
