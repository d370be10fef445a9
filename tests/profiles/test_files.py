"""Users' own profiles, and the errors they get."""

from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from gpuyard.core.errors import InputError
from gpuyard.profiles import Slowdown, Zoo, load_zoo
from gpuyard.profiles.files import parse

GOOD = """
grid: {cpus: [3, 6], memory_gb: [62.5]}
models:
  mynet:
    task: image
    iteration_s: 0.5
    throughput: [[1], [1.5]]
    gpu_speed: {A100: 2}
"""


def load(tmp_path: Path, text: str) -> Zoo:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return load_zoo([str(path)])


def test_own_profile_joins_the_zoo(tmp_path: Path) -> None:
    zoo = load(tmp_path, GOOD)
    profile = zoo.profile("mynet")
    assert profile.best() == (6, 62.5, 0, 1.5)
    assert (profile.title, profile.spread_penalty, profile.factor("A100")) == ("mynet", 1.0, 2.0)
    assert profile.source.endswith("mine.yaml")
    assert "alexnet" in zoo.names
    assert "mynet" not in zoo.default_names


@pytest.mark.parametrize(
    ("old", "new", "field", "rule"),
    [
        ("[[1], [1.5]]", "[[1], [1.5], [2]]", "models.mynet.throughput", "3 rows, but the grid has 2 CPU points"),
        ("[[1], [1.5]]", "[[1], [1.5, 2]]", "models.mynet.throughput.1", "2 columns, but the grid has 1 memory point"),
        ("[[1], [1.5]]", "[[1], [-1.5]]", "models.mynet.throughput.1.0", "-1.5 input should be greater than 0"),
        ("[[1], [1.5]]", "[[2], [3]]", "models.mynet.throughput", "2.0 is the throughput at the reference share"),
        ("iteration_s: 0.5", "iteration_s: 0", "models.mynet.iteration_s", "0 input should be greater than 0"),
        ("iteration_s: 0.5", "iteration_s: .inf", "models.mynet.iteration_s", "input should be a finite number"),
        ("    iteration_s: 0.5\n", "", "models.mynet.iteration_s", "is missing"),
        ("iteration_s: 0.5", "iteration: 0.5\n    iteration_s: 0.5", "models.mynet.iteration", "is not a key"),
        ("grid: {cpus: [3, 6], memory_gb: [62.5]}\n", "", "models.mynet.grid", "is missing"),
        ("cpus: [3, 6]", "cpus: [6, 3]", "grid.cpus", "must increase from point to point"),
        ("{A100: 2}", "{A100: 0}", "models.mynet.gpu_speed.A100", "0 input should be greater than 0"),
        ("models:", "default: [other]\nmodels:", None, "default names 'other'"),
        ("task: image", "task: image\n    published: {4: [1, 1, 1, 1]}", "models.mynet.published", "ratio 3"),
        ("  mynet:", "  alexnet:", "models", "'alexnet' already has a profile"),
        ("  mynet:", "  generic:", "models", "'generic' already has a profile"),
        ("  mynet:", "  ResNet-50:", "models", "'ResNet-50' already has a profile, as 'res50'. Give it another name"),
        ("task: image", "aliases: [resnet50]", "models", "'resnet50' already has a profile, as 'res50'"),
        ("task: image", "replace: true", "models", "'mynet' replaces no model that gpuyard has a profile of"),
        ("task: image", "replace: maybe", "models.mynet.replace", "'maybe' input should be a valid boolean"),
        ("    throughput: [[1], [1.5]]\n", "", "models.mynet", "has none of throughput, steps, latency"),
        ("task: image", "memory_mib: {8: -1}", "models.mynet.memory_mib.8", "-1 input should be greater than 0"),
        ("task: image", "memory_mib: {0: 9}", "models.mynet.memory_mib.0.[key]", "greater than or equal to 1"),
    ],
)
def test_broken_files(tmp_path: Path, old: str, new: str, field: str | None, rule: str) -> None:
    assert old in GOOD
    with pytest.raises(InputError) as caught:
        load(tmp_path, GOOD.replace(old, new))
    assert str(caught.value.file).endswith("mine.yaml")
    assert caught.value.field == field
    assert rule in str(caught.value)


@pytest.mark.parametrize(
    ("part", "field", "rule"),
    [
        ("latency: [{gpu: A100, slices: {1.5: {1: 3}}}]", "latency.0.slices.1.5.[key]", "less than or equal to 1"),
        ("latency: [{gpu: A100, slices: {0.5: {1: 0}}}]", "latency.0.slices.0.5.1", "0 input should be greater than 0"),
        ("latency: [{gpu: A100, slices: {}}]", "latency.0.slices", "at least 1 item"),
        ("latency: [{gpu: A100, slices: {0.125: {1: 3}}}]", "latency.0.slices.0.125.[key]", "whole number of percent"),
        ("latency: [{gpu: A100, slices: {1: {1: 3}}}, {gpu: a100-40gb, slices: {1: {1: 3}}}]", "latency", "A100 twice"),
        ("latency: [{gpu: A100, slices: {1: {1: 3}}, traffic: {1: [0, 0]}}]", "latency.0.traffic", "no batch of 2"),
        ("serving: {input: [FP31, 3]}", "serving.input", "must be a type and a shape, such as [FP32, 3, 224, 224]"),
        ("serving: {output: [FP32, 0]}", "serving.output", "must be a type and a shape"),
        ("serving: {gathering_ms: [1, 2]}", "serving.gathering_ms", "at least 32 items"),
        ("slowdown: [{beside: gnmt, factor: 0.5}]", "slowdown.0.factor", "greater than or equal to 1"),
        (
            "steps: [{gpus: {A100: {steps: {8: [1]}}}}]",
            "steps.0.gpus.A100.steps.8",
            "must be [forward_ms, backward_ms]",
        ),
        ("steps: [{model: other, gpus: {}}]", "steps.0.gpus", "at least 1 item"),
    ],
)
def test_broken_parts(tmp_path: Path, part: str, field: str, rule: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, GOOD.replace("task: image", part))
    assert caught.value.field == f"models.mynet.{field}"
    assert rule in str(caught.value)


ALL_PARTS = """
models:
  mynet:
    aliases: [my_network]
    iteration_s: 0.5
    gpu_type: a100
    grid: {cpus: [3, 6], memory_gb: [62.5]}
    throughput: [[1], [1.5]]
    gpu_speed: {tesla-v100: 0.4}
    steps:
    - {precision: bf16, gpus: {A100: {steps: {8: [10, 20], 16: [20, 40]}}}}
    latency:
    - {gpu: A100, slices: {1.0: {1: 4, 8: 11}, 0.5: {1: 7, 8: 20}}}
    memory_mib: {8: 2000, 16: 3000}
    slowdown:
    - {beside: res50, factor: 1.3, gpu: a100-40gb}
"""


def test_one_file_holds_every_part(tmp_path: Path) -> None:
    zoo = load(tmp_path, ALL_PARTS)
    profile = zoo.profile("MyNetwork")
    assert (profile.name, profile.gpu_type, profile.top_speed) == ("mynet", "A100", 1.5)
    assert (profile.factor("A100-40GB"), profile.factor("V100")) == (1.0, 0.4)
    (steps,) = zoo.steps("mynet")
    assert (steps.gpu, steps.precision) == ("A100", "bf16")
    assert steps.at(8).step_s == pytest.approx(0.03)
    (latency,) = profile.latency
    assert [latency.at(1), latency.at(8, 0.5), latency.at(4, 1.0)] == pytest.approx([0.004, 0.020, 0.007])
    assert profile.memory is not None
    assert profile.memory.at(12) == 2500 * 2**20
    assert profile.slowdown == (Slowdown("res50", 1.3, "A100"),)


def test_what_was_not_measured_is_not_made_up(tmp_path: Path) -> None:
    profile = load(tmp_path, ALL_PARTS).profile("mynet")
    assert profile.memory is not None
    with pytest.raises(InputError, match=r"field slice: 0.25 is not a slice that was measured. Measured: 1, 0.5"):
        profile.latency[0].at(1, 0.25)
    with pytest.raises(InputError, match=r"field batch: 32 is beyond the batch sizes that were measured, 8 to 16"):
        profile.memory.at(32)


@pytest.mark.parametrize("name", ["res50", "resnet50", "ResNet-50"])
def test_a_bundled_model_is_replaced_under_all_its_names_when_asked(tmp_path: Path, name: str) -> None:
    zoo = load(tmp_path, GOOD.replace("  mynet:", f"  {name}:\n    replace: true"))
    assert zoo.profile("res50") is zoo.profile("resnet50")
    assert (zoo.profile("res50").name, zoo.profile("res50").top_speed) == ("res50", 1.5)
    assert zoo.names == load_zoo().names
    with pytest.raises(InputError, match="no published scalars"):
        zoo.published("res50", 3)


def test_a_model_that_is_replaced_is_served_as_it_was_where_its_file_says_nothing(tmp_path: Path) -> None:
    latency = "    latency: [{gpu: 3080, slices: {1: {1: 3, 32: 40}}}]\n"
    zoo = load(tmp_path, GOOD.replace("  mynet:\n", f"  resnet50:\n    replace: true\n{latency}"))
    profile = zoo.profile("res50")
    [bundled] = [each for each in load_zoo().profile("res50").latency if each.gpu == "RTX2080Ti"]
    assert [(each.gpu, each.at(1)) for each in profile.latency] == [("3080", 0.003), ("RTX2080Ti", bundled.at(1))]
    assert (profile.served_as, profile.served_mb) == ("resnet50", 1820)


def test_a_model_of_the_step_zoo_gets_a_throughput(tmp_path: Path) -> None:
    zoo = load(tmp_path, GOOD.replace("  mynet:", "  vgg16:"))
    assert zoo.profile("vgg16").top_speed == 1.5
    assert len(zoo.steps("vgg16")) == 6


def test_defaults_join_those_of_the_zoo(tmp_path: Path) -> None:
    zoo = load(tmp_path, GOOD.replace("models:", "default: [mynet]\nmodels:"))
    assert zoo.default_names == (*load_zoo().default_names, "mynet")


def test_a_model_that_stands_twice(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"mine.yaml, row 9: 'mynet' stands twice"):
        load(tmp_path, GOOD + "  mynet: {}\n")


@pytest.mark.parametrize("text", ["models: [", "- 1", "", "models: {}"])
def test_not_a_profile_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"mine\.yaml"):
        load(tmp_path, text)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_zoo([tmp_path / "none.yaml"])


def test_bundled_file_keeps_the_schema_it_is_not_checked_against_at_start(zoo: Zoo) -> None:
    text = files("gpuyard.profiles").joinpath("zoo", "synergy.yaml").read_text(encoding="utf-8")
    content = parse(text, "synergy.yaml")
    assert set(content.profiles) == set(zoo.names) - {"generic"}
    assert content.tables == zoo.tables
    for name, profile in content.profiles.items():
        bundled = vars(zoo.profile(name))
        for field, value in vars(profile).items():
            assert repr(bundled[field]) == repr(value), (name, field)
    assert "msr-fiddle/synergy" in yaml.safe_load(text)["source"]
