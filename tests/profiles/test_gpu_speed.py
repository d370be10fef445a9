"""How fast models are on GPU types: measured, estimated, or not known."""

from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.zoo.speeds import write_speeds
from gpuyard.profiles import GpuKind, GpuSpeed, Zoo, find_gpu, find_step_profile, gpu_kinds, ladder, load_zoo
from gpuyard.profiles.gpu_speed import bundled_speeds, gpu_speed, roofline_ratio

BUNDLED = Path(__file__).resolve().parents[2] / "src" / "gpuyard" / "profiles" / "zoo" / "gpu_speed.yaml"
ZOO = load_zoo()
KINDS = [kind.key for kind in gpu_kinds()]


def test_the_bundled_file_is_what_the_tables_give(shared_data: Path, tmp_path: Path) -> None:
    write_speeds(shared_data / "published-gpu", tmp_path / "again.yaml")
    assert (tmp_path / "again.yaml").read_text(encoding="utf-8") == BUNDLED.read_text(encoding="utf-8")


def test_a_measured_speed_is_the_ratio_of_step_times(zoo: Zoo) -> None:
    """96 is the largest batch that was measured both on K80 and on V100."""
    seconds = {gpu: find_step_profile(gpu, "resnet50").at(96).step_s for gpu in ("K80", "V100")}
    speed = zoo.gpu_speed("res50", "K80")
    assert speed.factor == pytest.approx(seconds["V100"] / seconds["K80"], rel=1e-3)
    assert (speed.origin, speed.estimated, speed.expected_error) == ("measured", False, 0)


@pytest.mark.parametrize(
    ("model", "gpu", "origin", "source"),
    [
        ("resnet50", "v100", "reference", "measured on V100"),
        ("resnet50", "", "reference", "measured on V100"),
        ("resnet50", "Tesla-K80", "measured", "GPEmu"),
        ("lstm", "p100", "measured", "Gavel"),
        ("transformer", "P100", "estimated", "translation"),
        ("lstm", "A100", "estimated", "the mean of the models"),
        ("resnet50", "H100", "estimated", "data sheets, from A100"),
        ("generic", "K80", "estimated", "the mean of the models"),
        ("generic", "T4", "estimated", "data sheets, from M40"),
        ("resnet50", "G3", "unknown", "nothing is known of G3 but its name"),
    ],
)
def test_where_a_speed_comes_from_is_said(zoo: Zoo, model: str, gpu: str, origin: str, source: str) -> None:
    speed = zoo.gpu_speed(model, gpu)
    assert speed.origin == origin
    assert source in speed.source
    assert speed.estimated == (origin in ("estimated", "unknown"))
    assert (speed.expected_error > 0) == (origin == "estimated")
    assert (speed.factor == 1.0) == (origin in ("reference", "unknown"))


def test_an_estimate_that_stands_on_an_estimate_is_less_sure(zoo: Zoo) -> None:
    assert zoo.gpu_speed("gnmt", "A100").expected_error < zoo.gpu_speed("res50", "H100").expected_error
    assert zoo.gpu_speed("res50", "H100").expected_error < zoo.gpu_speed("gnmt", "H100").expected_error


def test_a_kind_with_twice_of_everything_is_twice_as_fast() -> None:
    a100 = find_gpu("A100")
    double = GpuKind("double", "Double", a100.memory_bytes, {"fp32": 2 * a100.flops["fp32"]}, 2 * a100.bandwidth)
    table = bundled_speeds()
    assert table.speed("res50", double).factor == pytest.approx(2 * table.speed("res50", a100).factor)


def test_what_a_profile_states_goes_first_and_is_built_upon() -> None:
    stated = {"A100": GpuSpeed(3.0, "measured", "ours")}
    assert gpu_speed("res50", "A100", "V100", stated) == stated["A100"]
    assert gpu_speed("res50", "H100", "V100", stated).factor == pytest.approx(
        3.0 / gpu_speed("res50", "A100").factor * gpu_speed("res50", "H100").factor
    )


def test_what_a_profile_measured_elsewhere_states_is_built_upon() -> None:
    """A model nobody knows: a P40 is to a T4 as the two are built, whichever type the profile was measured on."""
    stated = {"T4": GpuSpeed(0.2, "measured", "ours")}
    expected = 0.2 * roofline_ratio(find_gpu("P40"), find_gpu("T4"))
    assert gpu_speed("nobody knows", "P40", "A100", stated).factor == pytest.approx(expected)


@pytest.mark.parametrize("gpu", ["K80", "A100", "H100", "T4"])
def test_a_profile_measured_elsewhere_is_relative_to_there(gpu: str) -> None:
    there = gpu_speed("res50", "A100").factor
    assert gpu_speed("res50", gpu, "A100").factor == pytest.approx(gpu_speed("res50", gpu).factor / there)
    assert gpu_speed("res50", "A100", "A100") == GpuSpeed(1.0, "reference", "measured on A100")
    assert gpu_speed("res50", gpu, "G3").origin == "unknown"


def test_stated_errors_are_those_in_use() -> None:
    content = yaml.safe_load(BUNDLED.read_text(encoding="utf-8"))["errors"]
    assert gpu_speed("gnmt", "A100").expected_error == content["other_model"]["median"]
    assert gpu_speed("res50", "T4").expected_error == content["other_gpu"]["median"]


SHARES = st.tuples(st.floats(0.5, 16), st.floats(20, 300), st.floats(10, 300))


@given(st.sampled_from(ZOO.names), st.sampled_from([*KINDS, "G3"]), SHARES)
def test_the_ladder_of_every_model_on_every_kind(name: str, gpu: str, share: tuple[float, float, float]) -> None:
    profile = ZOO.profile(name)
    rows = ladder(profile, share, gpu).tolist()
    assert all(amount <= limit for amount, limit in zip(rows[0][:3], share, strict=True))
    cpus, memory, storage = (int(amount * 1024) / 1024 for amount in share)
    assert rows[0][3] == pytest.approx(profile.speed(cpus, memory, storage, gpu))
    assert rows[-1][3] == pytest.approx(profile.top_speed * profile.factor(gpu))
    for below, above in pairwise(rows):
        assert above[3] > below[3]
        assert all(more >= less for more, less in zip(above[:3], below[:3], strict=True))


def test_a_slow_gpu_needs_fewer_cpus_and_a_fast_one_can_use_more(zoo: Zoo) -> None:
    most = {gpu: ladder(zoo.profile("res50"), (3, 62.5, 62.5), gpu)[-1, 0] for gpu in ("K80", "V100", "H100")}
    assert most["K80"] < 1
    assert most["V100"] == 4
    assert most["H100"] > 20
