"""The zoo as a whole."""

import subprocess
import sys

import pytest

from gpuyard.core.errors import InputError
from gpuyard.profiles import Zoo


def test_default_zoo_in_order_of_ids(zoo: Zoo) -> None:
    assert zoo.by_class == {
        "image": ("alexnet", "res18", "res50", "mobilenet", "shufflenet"),
        "language": ("gnmt", "transformer", "lstm"),
        "speech": ("m5", "deepspeech"),
    }
    assert zoo.default_names == tuple(name for names in zoo.by_class.values() for name in names)


def test_unknown_model_names_the_nearest(zoo: Zoo) -> None:
    with pytest.raises(InputError, match=r"'resnet50' is not a model .* Did you mean 'res50'"):
        zoo.profile("resnet50")


def test_ratios_without_a_table_use_that_of_ratio_three(zoo: Zoo) -> None:
    assert zoo.published("alexnet", 6).cpus == 24
    for ratio in (2, 3.5, 8):
        assert zoo.published("alexnet", ratio) == zoo.published("alexnet", 3)


def test_unmeasured_models_have_no_published_scalars(zoo: Zoo) -> None:
    with pytest.raises(InputError, match="no published scalars"):
        zoo.published("generic", 3)


def test_generic_minds_neither_cpus_nor_memory(zoo: Zoo) -> None:
    generic = zoo.profile("generic")
    assert {generic.speed(cpus, memory, 0.0) for cpus in (1, 3, 24) for memory in (1, 62.5, 500)} == {1.0}
    assert generic.iteration_s == 1.0


def test_loading_the_zoo_needs_no_heavy_package() -> None:
    code = (
        "import sys, gpuyard.profiles as p; p.load_zoo(); "
        "print([m for m in ('scipy', 'pydantic', 'polars', 'numba') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
