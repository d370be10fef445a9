"""gpulet's files as they are: applications, settings of its planner, GPU types."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpuyard.core.errors import InputError
from gpuyard.policies.partition.deployment_files import load_plan
from gpuyard.profiles.inference import read_devices, read_latencies, serving_gpu
from gpuyard.traces.gpulet_settings import read_scheduler
from gpuyard.traces.services import read_asked

TRAFFIC: dict[str, Any] = {
    "Name": "traffic",
    "Input": [{"ID": 0, "InputDim": [3, 300, 300], "InputType": "FP32", "output": [1]}],
    "Models": [
        {"ID": 1, "model": "ssd-mobilenetv1", "input": [0], "output": [2, 3], "max_batch": 32, "SLO": 69},
        {"ID": 2, "model": "googlenet", "input": [1], "output": [4], "max_batch": 32, "SLO": 67},
        {"ID": 3, "model": "vgg16", "input": [1], "output": [4], "max_batch": 32, "SLO": 67},
    ],
    "Output": [{"ID": 4, "input": [2, 3], "Comp": "none"}],
}


def game() -> dict[str, Any]:
    lenets = [{"ID": n, "model": f"lenet{n - 1}", "input": [1], "output": [9], "SLO": 95} for n in range(2, 8)]
    return {
        "Name": "game",
        "Input": [{"ID": 0, "output": [8]}, {"ID": 1, "output": list(range(2, 8))}],
        "Models": [*lenets, {"ID": 8, "model": "resnet50", "input": [0], "output": [9], "SLO": 95}],
        "Output": [{"ID": 9, "input": list(range(2, 9))}],
    }


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 100_000])
def test_files_nested_too_deeply_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "deep.json").write_text(content)
    for read in (read_asked, read_scheduler, read_devices):
        with pytest.raises(InputError, match=r"deep\.json: cannot be read: it is nested too deeply"):
            read(tmp_path / "deep.json")


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    services = tmp_path / "services.yaml"
    for file in ("/dev/zero", "pipe.json"):
        services.write_text(f"gpuyard: services/1\napplications:\n  - {{name: a, rate_per_s: 1, file: {file}}}\n")
        with pytest.raises(InputError, match=f"{file}: is not a regular file"):
            read_asked(services)
    for read in (read_scheduler, read_devices, load_plan, read_latencies):
        with pytest.raises(InputError, match=r"pipe\.json: is not a regular file"):
            read(tmp_path / "pipe.json")


def write(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_applications_and_a_list_of_them(tmp_path: Path) -> None:
    write(tmp_path / "traffic.json", TRAFFIC)
    write(tmp_path / "game.json", game())
    specs = [{"name": "game", "file": "game.json"}, {"name": "traffic", "file": "traffic.json"}]
    both = read_asked(write(tmp_path / "apps.json", {"App_specs": specs}), {"game": 300.0, "": 50.0}).applications
    assert [(each.name, each.rate_per_s, each.slo_ms) for each in both] == [("game", 300.0, 95.0), ("traffic", 50, 136)]
    assert [stage.model for stage in both[0].stages] == ["lenet"] * 6 + ["resnet50"]
    assert [stage.after for stage in both[1].stages] == [(), ("ssd-mobilenetv1",), ("ssd-mobilenetv1",)]
    [alone] = read_asked(tmp_path / "traffic.json", {"traffic": 7.0}).applications
    assert alone.rate_per_s == 7.0
    with pytest.raises(InputError, match=r"'traffic' has no rate\. Give --rate traffic=100"):
        read_asked(tmp_path / "traffic.json")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"Output": [{"ID": 5, "input": [2, 3]}]}, "field Output, ID: 5 must be 4, its position"),
        ({"Input": [{"ID": 0, "output": [7]}]}, "field 0, output: 7 is not the ID of a node"),
        ({"Input": [{"ID": 0, "output": [2]}]}, "field 0, output: 2 does not name 0 as its input"),
        ({"Models": []}, "field Models: must be a list"),
    ],
)
def test_a_wrong_application_is_refused(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    path = write(tmp_path / "app.json", TRAFFIC | change)
    with pytest.raises(InputError) as refused:
        read_asked(path, {"": 1.0})
    assert says in str(refused.value)
    assert "app.json" in str(refused.value)


def test_a_circle_of_models_is_refused(tmp_path: Path) -> None:
    models = [each | {"input": [0, 3], "output": [2, 3]} if each["ID"] == 1 else each for each in TRAFFIC["Models"]]
    models[2] = models[2] | {"output": [4, 1]}
    with pytest.raises(InputError, match="go round in a circle"):
        read_asked(write(tmp_path / "app.json", TRAFFIC | {"Models": models}), {"": 1.0})


def test_applications_in_yaml(tmp_path: Path) -> None:
    write(tmp_path / "traffic.json", TRAFFIC)
    (tmp_path / "s.yaml").write_text(
        "gpuyard: services/1\n"
        "services:\n  - {model: bert, rate_per_s: 5, slo_ms: 22}\n"
        "applications:\n"
        "  - {name: a, rate_per_s: 10, slo_ms: 300, stages: {find: vgg16, tell: {model: bert, after: find}}}\n"
        "  - {name: b, rate_per_s: 20, file: traffic.json}\n"
        "  - {name: c, rate_per_s: 20, slo_ms: 202, file: traffic.json}\n"
    )
    found = read_asked(tmp_path / "s.yaml")
    assert [each.service_id for each in found.services] == ["bert"]
    own, as_it_is, split_anew = found.applications
    assert own.stages[1].after == ("find",)
    assert (as_it_is.name, as_it_is.slo_ms, as_it_is.stages[0].slo_ms) == ("b", 136.0, 69)
    assert (split_anew.slo_ms, split_anew.stages[0].slo_ms) == (202.0, None)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("{name: a, slo_ms: 9, stages: {x: bert}}", "row 3, field rate_per_s: is missing"),
        ("{name: a, rate_per_s: 1, slo_ms: 9}", "needs either stages or the file"),
        ("{name: a, rate_per_s: 1, slo_ms: 9, stages: {x: {after: y}}}", "field stages, x: {'after': 'y'} must be a"),
        ("{name: a, rate_per_s: 1, slo_ms: 9, stages: {x: {model: bert, after: y}}}", "'y' is not a stage"),
        ("{name: a, rate_per_s: 1, slo_ms: 9, colour: red, stages: {x: bert}}", "'colour' is not a field"),
        ("{name: a, rate_per_s: 1, file: none.json}", "none.json: does not exist"),
    ],
)
def test_a_wrong_application_in_yaml_is_one_line(tmp_path: Path, entry: str, says: str) -> None:
    (tmp_path / "s.yaml").write_text(f"gpuyard: services/1\napplications:\n  - {entry}\n")
    with pytest.raises(InputError) as refused:
        read_asked(tmp_path / "s.yaml")
    assert says in str(refused.value)


@pytest.mark.parametrize("name", ["a", "a/x"])
def test_a_service_with_the_name_of_an_application_is_one_line(tmp_path: Path, name: str) -> None:
    service = f"services:\n  - {{service_id: {name}, model: bert, rate_per_s: 1, slo_ms: 9}}\n"
    whole = "applications:\n  - {name: a, rate_per_s: 1, slo_ms: 9, stages: {x: bert}}\n"
    (tmp_path / "s.yaml").write_text(f"gpuyard: services/1\n{service}{whole}")
    with pytest.raises(InputError, match=r"s\.yaml, .*is the name of an application, or of a stage of one, too"):
        read_asked(tmp_path / "s.yaml")


SCHEDULER = {
    "GPUs": [{"Type": "2080ti", "Num": 2}], "Max Model": 3, "Part": 1, "Latency Ratio": 1.1, "Interference": 1,
    "Incremental": 1, "SLO Ratio": 1.0, "Avail_Parts": [20, 40, 50, 60, 80, 100],
}  # fmt: skip


def test_settings_of_the_original_planner(tmp_path: Path) -> None:
    found = read_scheduler(write(tmp_path / "s.json", SCHEDULER))
    assert (found.gpus, found.policy, found.buffer, found.interference) == ("2x2080ti", "elastic", 1.1, True)
    assert (found.most_models, found.unused) == (3, ("Incremental", "SLO Ratio"))
    whole = read_scheduler(write(tmp_path / "s.json", SCHEDULER | {"Part": 0, "Interference": 0}))
    assert (whole.policy, whole.interference) == ("squishy", False)
    greedy = read_scheduler(write(tmp_path / "s.json", SCHEDULER | {"Self Tuning": 1}))
    assert (greedy.policy, greedy.interference) == ("greedy", False)
    blind = read_scheduler(write(tmp_path / "s.json", SCHEDULER | {"Self Tuning": 0}))
    assert (blind.policy, blind.interference) == ("elastic", False)
    pool = [{"Type": "3080", "Num": 1}, {"Type": "2080ti", "Num": 4}]
    assert read_scheduler(write(tmp_path / "s.json", {"GPUs": pool})).gpus == "4x2080ti+1x3080"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"GPUs": {"2080ti": 2}}, "field GPUs"),
        ({"Part": 2}, "field Part: 2 must be 0 or 1"),
        ({"Latency Ratio": 0.9}, "field Latency Ratio: 0.9 must be a number, 1 or more"),
        ({"Avail_Parts": [20]}, "field Avail_Parts: [20] must be sizes in percent, 100 among them"),
        ({"Max Model": 0}, "field Max Model: 0 must be a whole number, 1 or more"),
        ({"Latency": 1}, "'Latency' is not a key of a scheduler file"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as refused:
        read_scheduler(write(tmp_path / "s.json", SCHEDULER | change))
    assert says in str(refused.value)


def device_files(folder: Path) -> Path:
    """A type with one model, as gpulet lays its resources out."""
    (folder / "card").mkdir()
    rows = [f"resnet50,{percent},{batch},{batch * 100 / percent}" for percent in (50, 100) for batch in (1, 32)]
    (folder / "card" / "latency.csv").write_text("\n".join(rows) + "\n")
    traffic = [f"resnet50,{1 << k},0.1,50,{10 + k},{20 + k},40,80" for k in range(6)]
    (folder / "card" / "UTIL.CSV").write_text("\n".join(["model,batch,duration,sm,l2,dram,a,t", *traffic]) + "\n")
    (folder / "card" / "INT_MODEL_CONSTANT.CSV").write_text("a,b,c,d,e\n0.1,0.2,0.3,0.4,0.9\n")
    spec = {
        "type": "2080ti", "mem_mb": 11000, "latency_prof_file": "card/latency.csv",
        "interference_const_file": "card/INT_MODEL_CONSTANT.CSV", "interference_util_file": "card/UTIL.CSV",
    }  # fmt: skip
    return write(folder / "devices.json", {"device_specs": [spec]})


def test_gpu_types_of_the_original(tmp_path: Path) -> None:
    [(key, gpu)] = read_devices(device_files(tmp_path)).items()
    assert (key, gpu.memory_mb, gpu.slices) == (serving_gpu("2080ti").key, 11000, (50, 100))
    assert tuple(gpu.interference) == (0.1, 0.2, 0.3, 0.4, 0.9)
    model = gpu.models["resnet50"]
    assert (model.latency_ms[50][32], model.traffic[4].l2, model.traffic[4].dram) == (64.0, 0.12, 0.22)
    assert model.memory_mb == serving_gpu("2080ti").models["resnet50"].memory_mb


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("card/UTIL.CSV", "head\nresnet50,1,1,1,1,1,1,1\n", "UTIL.CSV, field model: 'resnet50' has no batch of 2"),
        ("card/UTIL.CSV", "head\nresnet50,1,1,1,much,1\n", "UTIL.CSV, row 2, field L2: 'much' must be a number"),
        ("card/INT_MODEL_CONSTANT.CSV", "head\n1,2\n", "INT_MODEL_CONSTANT.CSV, row 2: must be five numbers"),
        ("devices.json", "{}", "field device_specs: must be a list"),
        ("devices.json", '{"device_specs": [{"type": "x", "mem_mb": 1}]}', "no latencies of this type are known"),
        ("devices.json", '{"device_specs": [{"type": "x", "mem_mb": 0}]}', "mem_mb: 0 must be a number above 0"),
    ],
)
def test_wrong_gpu_types_are_refused(tmp_path: Path, file: str, text: str, says: str) -> None:
    path = device_files(tmp_path)
    (tmp_path / file).write_text(text)
    with pytest.raises(InputError) as refused:
        read_devices(path)
    assert says in str(refused.value)
