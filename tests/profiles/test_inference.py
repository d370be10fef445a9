"""What is known of inference on slices."""

import csv
from pathlib import Path

import pytest

from benchmarks.zoo.inference import write_inference
from gpuyard.profiles import canonical, load_zoo
from gpuyard.profiles.files import parse
from gpuyard.profiles.inference import InferenceModel, bundled_inference, gpulet_ids, inference_model, serving_gpu
from gpuyard.profiles.serving_parts import DATATYPES, LatencyProfile
from gpuyard.serving.protocol import tensors

BUNDLED = Path(__file__).resolve().parents[2] / "src" / "gpuyard" / "profiles" / "zoo" / "inference.yaml"
POINTS = {20: {1: 4.0, 8: 18.0, 32: 90.0}, 100: {1: 1.0, 8: 8.0, 32: 30.0}, 50: {1: 2.0, 8: 11.0, 32: 60.0}}


def test_the_bundled_file_is_what_the_tables_give(shared_data: Path, tmp_path: Path) -> None:
    write_inference(shared_data / "gpulet", tmp_path / "inference.yaml")
    assert (tmp_path / "inference.yaml").read_text() == BUNDLED.read_text()


@pytest.mark.parametrize(
    ("batch", "percent", "measured", "published"),
    [
        (8, 50, 11.0, 11.0),
        (4, 20, 10.0, 10.0),  # the smallest slice is where the published rule looks
        # Between: 2 + 9 * 3/7; and published (60 - 30) / (90 - 30) of the way from 4 on the whole GPU to 10.
        (4, 50, 41 / 7, 7.0),
    ],
)
def test_between_measured_batches(batch: int, percent: int, measured: float, published: float) -> None:
    model = InferenceModel("m", POINTS)
    assert model.measured_ms(batch, percent) == pytest.approx(measured)
    assert model.published_ms(batch, percent) == pytest.approx(published)
    assert model.cautious_ms(batch, percent) == pytest.approx(max(measured, published))


def test_a_slice_is_found_by_its_part_though_a_part_is_not_exactly_hundredths() -> None:
    """0.29 * 100 is 28.999999999999996."""
    profile = LatencyProfile("V100", {percent: {1: float(percent)} for percent in range(1, 101)})
    assert [profile.at(1, percent / 100) for percent in range(1, 101)] == [percent / 1e3 for percent in range(1, 101)]


def test_the_bundled_file_keeps_the_schema_it_is_not_checked_against_at_start() -> None:
    content = parse(BUNDLED.read_text(), "inference.yaml")
    assert set(content.gpus) == set(bundled_inference())
    for name, stated in content.profiles.items():
        profile = load_zoo().profile(name)
        assert profile.served_as == name
        assert profile.serving == stated.stated_serving
        assert [vars(each) for each in profile.latency] == [vars(each) for each in stated.stated_latency]


def test_gpulet_numbers_its_models(shared_data: Path) -> None:
    lines = (shared_data / "gpulet" / "models.csv").read_text().splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    assert gpulet_ids() == tuple(row["name"] for row in rows)


def test_one_name_finds_all_that_is_known_of_a_model() -> None:
    zoo = load_zoo()
    for name in ("res50", "ResNet-50", "resnet50"):
        profile = zoo.profile(name)
        assert (profile.name, profile.top_speed, len(zoo.steps(name))) == ("res50", 1.15, 6)
        assert [each.gpu for each in profile.latency] == ["RTX2080Ti", "3080"]
        planned = serving_gpu("2080ti").models[profile.served_as]
        assert profile.latency[0].at(32, 0.2) == planned.latency_ms[20][32] / 1e3
        assert profile.serving.memory_mb == planned.memory_mb == 1820
    assert {zoo.profile(name).name for name in ("lenet", "lenet1", "LeNet-6")} == {canonical("lenet3")} == {"lenet"}


def test_types_of_numbers_are_those_of_the_protocol() -> None:
    assert set(DATATYPES) == set(tensors.DATATYPES)


def test_a_model_is_found_by_any_of_its_names() -> None:
    assert {inference_model(name) for name in ("res50", "ResNet-50", "resnet50")} == {"resnet50"}
    assert inference_model("lenet4") == "lenet"
    assert inference_model("mine") == "mine"


def test_every_model_is_known_on_every_slice_of_every_gpu() -> None:
    for gpu in bundled_inference().values():
        assert gpu.slices == (20, 40, 50, 60, 80, 100)
        assert len(gpu.models) == 9
    assert serving_gpu("2080 Ti").memory_mb == 11000
