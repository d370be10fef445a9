"""The bundled step profiles, against the tables they come from and the models they are of."""

from collections.abc import Iterator
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from benchmarks.zoo.steps import bundled_steps, model_signatures
from benchmarks.zoo.tables import read_table
from gpuyard.core.errors import InputError
from gpuyard.profiles import find_gpu, find_step_profile, gpu_kinds, signature
from gpuyard.profiles.fitting import assess
from gpuyard.profiles.measurements import read_measurements
from gpuyard.profiles.step_files import parse_steps
from gpuyard.profiles.step_store import bundled_profiles, step_models
from gpuyard.profiles.steps import STANDARD_BATCHES

ZOO = files("gpuyard.profiles").joinpath("zoo", "steps")
MEASURED = [kind.key for kind in gpu_kinds() if kind.measured]


@pytest.fixture(autouse=True)
def _no_profiles_of_one_s_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUYARD_PROFILES", str(tmp_path))


def test_thirty_six_models_on_six_gpus() -> None:
    assert len(step_models()) == 36
    for model in step_models():
        profiles = bundled_profiles(model)
        assert [profile.gpu for profile in profiles] == MEASURED
        for profile in profiles:
            assert set(STANDARD_BATCHES) <= set(profile.batches)
            assert profile.points[0].measured


def test_every_point_is_a_row_of_the_tables(shared_data: Path) -> None:
    folder = shared_data / "gpemu"
    key = ["gpu", "model", "batch_size"]
    times = read_table(folder, "compute_time.csv").rows_by_key(key, named=True, unique=True)
    memory = read_table(folder, "memory.csv").rows_by_key(key, named=True, unique=True)
    for profile in (profile for model in step_models() for profile in bundled_profiles(model)):
        for point in profile.points:
            row, held = (table[profile.gpu, profile.model, point.batch] for table in (times, memory))
            assert point.forward_s == pytest.approx(row["forward_s"], rel=1e-6)
            assert point.backward_s == pytest.approx(row["backward_s"], rel=1e-6)
            assert point.measured == (row["measured"] == 1)
            if held["persistent_mib"] < 0:
                assert point.peak_bytes is None
                continue
            assert point.peak_bytes == pytest.approx(held["peak_mib"] * 2**20, rel=1e-6)
            assert point.persistent_bytes == pytest.approx(held["persistent_mib"] * 2**20, rel=1e-6)
            assert point.memory_measured == (held["measured"] == 1)


def test_the_largest_batch_that_fitted_is_a_point(shared_data: Path) -> None:
    for model, profiles in bundled_steps(shared_data / "gpemu"):
        for profile, bundled in zip(profiles, bundled_profiles(model), strict=True):
            assert [(point.batch, point.measured) for point in profile.points] == [
                (point.batch, point.measured) for point in bundled.points
            ]
    largest = max(point.batch for point in find_step_profile("K80", "resnet50").points if point.measured)
    assert largest == 126


def test_thirteen_points_tell_unseen_batch_sizes_within_two_and_a_half_percent(shared_data: Path) -> None:
    """Acceptance: mean error over all 216 pairs of GPU and model, forward and backward together."""
    fits = [assess(profile) for profile in read_measurements(shared_data / "gpemu" / "compute_time.csv")]
    assert len(fits) == 216

    def mean(method: str) -> float:
        return sum(fit.errors[method] or 0.0 for fit in fits) / len(fits)

    assert mean("piecewise") <= 0.025
    assert mean("piecewise") < mean("floor_line") < mean("line")
    assert max(fit.errors["piecewise"] or 0.0 for fit in fits) < 0.08


def test_resnet50_on_a_v100() -> None:
    profile = find_step_profile(find_gpu("V100"), "resnet50")
    assert profile.at(64).step_s == pytest.approx(0.206, abs=0.001)
    assert profile.at(64).origin == "measured"
    assert profile.at(56).origin == "interpolated"
    assert (profile.input_shape, profile.precision) == ((3, 224, 224), "fp32")
    assert "gpemu" in profile.source


def test_a_profile_is_found_by_its_signature() -> None:
    by_name = find_step_profile("A100", "vgg16")
    assert find_step_profile("A100", signature=by_name.signatures[0]) == by_name
    assert find_step_profile("A100", signature="0" * 12) is None
    assert find_step_profile("A100", "res50") is find_step_profile("a100", "ResNet-50")
    assert find_step_profile("H100", signature=by_name.signatures[0]) is None
    assert find_step_profile("A100", signature=by_name.signatures[0], precision="fp16") is None


@pytest.mark.parametrize(
    ("gpu", "model", "precision", "message"),
    [
        ("V100", "resnet5", "fp32", "'resnet5' has no step profile. Did you mean 'resnet50'"),
        ("H100", "resnet50", "fp32", "'resnet50' has no step profile on H100 in fp32. It has: A100 in fp32, K80"),
        ("V100", "resnet50", "fp16", "'resnet50' has no step profile on V100 in fp16"),
        ("V10", "resnet50", "fp32", "'V10' is not a GPU kind gpuyard knows"),
        ("V100", "../gpus", "fp32", "'../gpus' has no step profile"),
    ],
)
def test_unknown_names(gpu: str, model: str, precision: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        find_step_profile(gpu, model, precision=precision)
    assert message in str(caught.value)


def test_bundled_files_keep_the_schema_they_are_not_checked_against_at_start() -> None:
    for model in step_models():
        text = ZOO.joinpath(f"{model}.yaml").read_text(encoding="utf-8")
        assert parse_steps(text, model) == bundled_profiles(model)


def test_the_zoo_is_small() -> None:
    assert sum(len(ZOO.joinpath(f"{model}.yaml").read_bytes()) for model in step_models()) < 400_000


@pytest.fixture(scope="module")
def torchvision_models() -> Any:
    try:
        return import_module("torchvision.models")
    except (ImportError, RuntimeError) as error:  # RuntimeError: a build for another torch
        pytest.skip(f"torchvision cannot be imported: {error}")


def _shapes(models: Any, name: str, **options: Any) -> Iterator[tuple[int, ...]]:
    import torch

    with torch.device("meta"):
        built = models.get_model(name, **options)
    return (tuple(parameter.shape) for parameter in built.parameters())


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_models_are_recognised_whatever_the_number_of_their_classes(torchvision_models: Any) -> None:
    seen: dict[str, str] = {}
    for model in step_models():
        signatures = find_step_profile("V100", model).signatures
        assert signatures == tuple(model_signatures(model))
        assert seen.keys().isdisjoint(signatures), (model, seen)
        seen |= dict.fromkeys(signatures, model)
        assert signature(_shapes(torchvision_models, model, num_classes=10)) in signatures
