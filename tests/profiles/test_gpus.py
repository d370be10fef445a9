"""GPU kinds: found in any spelling, or described in a file of one's own."""

from importlib.resources import files
from pathlib import Path

import pytest

from gpuyard.core.cluster import DEFAULT_GPU_TYPE, NodeKind
from gpuyard.core.errors import InputError
from gpuyard.profiles import GpuKind, find_gpu, gpu_key, gpu_kind, gpu_kinds, parse_gpus
from gpuyard.profiles.gpu_schema import check_bundled
from gpuyard.profiles.reading import load_yaml

OWN = """
name: My Own GPU
memory_mib: 1024
bandwidth_gb_s: 100
tflops: {fp32: 2, fp16: 16}
link: {gb_s: 50}
"""


def own(tmp_path: Path, text: str) -> GpuKind:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return find_gpu(str(path))


def test_six_kinds_are_measured_and_the_others_are_estimates() -> None:
    kinds = {kind.key: kind.measured for kind in gpu_kinds()}
    assert [key for key, measured in kinds.items() if measured] == ["K80", "M40", "P100", "V100", "RTX6000", "A100"]
    assert {"T4", "L4", "A10", "RTX3090", "RTX4090", "A100-80GB", "H100", "H200"} < set(kinds)
    assert all("estimate" in kind.source for kind in gpu_kinds() if not kind.measured)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        *[("a100", "A100"), ("A100-40GB", "A100"), ("a100_80gb", "A100-80GB"), ("Tesla_V100-PCIE-32GB", "V100")],
        *[("RTX 6000", "RTX6000"), ("quadro_rtx_6000", "RTX6000"), ("NVIDIA H100 80GB HBM3", "H100")],
        *[("NVIDIA_A100-SXM4-40GB", "A100"), ("4090", "RTX4090")],
    ],
)
def test_a_kind_is_found_in_any_spelling(name: str, key: str) -> None:
    assert find_gpu(name).key == key


def test_a_type_has_one_key_in_any_spelling_and_a_stranger_keeps_its_name() -> None:
    assert [gpu_key(name) for name in ("v100", "Tesla-V100", "V100M32", "V100M16", "G3")] == [
        *["V100"] * 3, "V100-16GB", "G3",
    ]  # fmt: skip
    assert gpu_kind("Tesla-K80") is find_gpu("K80")
    assert not gpu_kind("G3").has_data_sheet


def test_the_default_of_a_node_is_that_of_its_kind() -> None:
    assert NodeKind().gpu_memory_gb == NodeKind().with_gpu(gpu_kind(DEFAULT_GPU_TYPE)).gpu_memory_gb


def test_no_two_kinds_answer_to_the_same_name() -> None:
    for kind in gpu_kinds():
        for name in (kind.key, kind.name, *kind.aliases):
            assert find_gpu(name) is kind


def test_every_kind_of_a_table_is_known_by_the_table_s_name(shared_data: Path) -> None:
    with (shared_data / "gpemu" / "model_transfer_time.csv").open(encoding="utf-8") as file:
        names = {line.split(",")[0] for line in list(file)[2:]}
    assert {find_gpu(name).key for name in names} == {kind.key for kind in gpu_kinds() if kind.measured}


def test_a_precision_without_a_rate_runs_at_that_of_fp32() -> None:
    v100 = find_gpu("V100")
    assert v100.flops_at("fp16") == 112e12
    assert v100.flops_at("bf16") == v100.flops_at("fp32") == 14e12


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("A100", ["A100"]),
        ("4xA100", ["A100"] * 4),
        ("2 x v100 + K80", ["V100", "V100", "K80"]),
        ("2xV100,K80", ["V100", "V100", "K80"]),
        ("RTX6000", ["RTX6000"]),
        ("2XRTX 6000", ["RTX6000"] * 2),
        ("16xT4", ["T4"] * 16),
    ],
)
def test_the_gpus_of_a_machine(text: str, keys: list[str]) -> None:
    assert [kind.key for kind in parse_gpus(text)] == keys


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("0xA100", "'0xA100' asks for no A100 at all"),
        ("xA100", "'xA100' is not a GPU kind"),
        ("4x", "'4x' lacks the name of a GPU kind"),
        ("", "'' lacks the name of a GPU kind"),
        ("2xV100+", "'2xV100+' lacks the name of a GPU kind"),
        ("9xV100+8xK80", "'9xV100+8xK80' names 17 GPUs, but a machine has at most 16"),
        ("999999999xT4", "names 999999999 GPUs"),
        ("4xB100", "'B100' is not a GPU kind gpuyard knows. Did you mean"),
        ("-1xA100", "'-1xA100' is not a GPU kind"),
    ],
)
def test_machines_that_cannot_be(text: str, rule: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_gpus(text)
    assert rule in str(caught.value)


def test_a_kind_of_one_s_own_is_an_estimate(tmp_path: Path) -> None:
    kind = own(tmp_path, OWN)
    assert (kind.key, kind.name, kind.measured) == ("mine", "My Own GPU", False)
    assert (kind.memory_bytes, kind.bandwidth, kind.flops_at("fp16")) == (2**30, 100e9, 16e12)
    assert (kind.link_bandwidth, kind.link) == (50e9, find_gpu("A10").link)
    assert "mine.yaml" in kind.source
    assert "estimate" in kind.source


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("bandwidth_gb_s: 100\n", "", "field bandwidth_gb_s: is missing"),
        ("fp32: 2, ", "", "field tflops.fp32: is missing"),
        ("memory_mib: 1024", "memory_mib: -1", "field memory_mib: -1 input should be greater than 0"),
        ("fp16: 16", "fp12: 16", "field tflops.fp12: 'fp12' is not a key of a GPU file"),
        ("link:", "measured: true\nlink:", "field measured: 'measured' is not a key of a GPU file"),
        ("link:", "power_w: [50, 20]\nlink:", "a GPU does not idle above its limit"),
        ("name: My Own GPU", "name: [", "is not YAML"),
        (OWN, "[]", "input should be a valid dictionary"),
    ],
)
def test_broken_kinds_of_one_s_own(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in OWN
    with pytest.raises(InputError) as caught:
        own(tmp_path, OWN.replace(old, new))
    assert str(caught.value).startswith(str(tmp_path / "mine.yaml"))
    assert message in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read as a GPU file"):
        find_gpu(str(tmp_path / "none.yaml"))


def test_the_bundled_file_keeps_the_schema_it_is_not_checked_against_at_start() -> None:
    text = files("gpuyard.profiles").joinpath("zoo", "gpus.yaml").read_text(encoding="utf-8")
    check_bundled(load_yaml(text, "gpus.yaml"), "gpus.yaml")


def test_copies_take_what_the_table_says(shared_data: Path) -> None:
    """One line has to do for the whole table; on M40 and K80 copies beyond 32 MB are slower than it can say."""
    import polars as pl

    image_bytes, label_bytes = 3 * 224 * 224 * 4, 8
    rows = pl.read_csv(shared_data / "gpemu" / "transfer_time.csv", comment_prefix="#")
    for (gpu, batch), of_models in rows.group_by("gpu", "batch_size"):
        kind, seconds = find_gpu(str(gpu)), of_models["h2d_s"].median()
        assert isinstance(batch, int)
        modelled = kind.copy_seconds(batch * image_bytes) + kind.copy_seconds(batch * label_bytes)
        assert modelled == pytest.approx(seconds, rel=0.45 if kind.key in {"K80", "M40"} else 0.2), (gpu, batch)


def test_pinned_memory_is_faster_and_a_small_copy_is_cheap() -> None:
    for kind in gpu_kinds():
        assert kind.copy_seconds(1e8, pinned=True) < kind.copy_seconds(1e8)
        assert kind.copy_seconds(8) < 20e-6
