"""Users' own profiles, and the errors they get."""

from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from gpuyard.core.errors import InputError
from gpuyard.profiles import Zoo, load_zoo
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
    return load_zoo([path])


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
    ],
)
def test_broken_files(tmp_path: Path, old: str, new: str, field: str | None, rule: str) -> None:
    assert old in GOOD
    with pytest.raises(InputError) as caught:
        load(tmp_path, GOOD.replace(old, new))
    assert str(caught.value.file).endswith("mine.yaml")
    assert caught.value.field == field
    assert rule in str(caught.value)


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
