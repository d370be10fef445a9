"""The zoo as a whole."""

import subprocess
import sys

import pytest

from gpuyard.core.errors import InputError
from gpuyard.profiles import Zoo, canonical, ladder


def test_default_zoo_in_order_of_ids(zoo: Zoo) -> None:
    assert zoo.by_class == {
        "image": ("alexnet", "res18", "res50", "mobilenet", "shufflenet"),
        "language": ("gnmt", "transformer", "lstm"),
        "speech": ("m5", "deepspeech"),
    }
    assert zoo.default_names == tuple(name for names in zoo.by_class.values() for name in names)


def test_unknown_model_names_the_nearest(zoo: Zoo) -> None:
    with pytest.raises(InputError, match=r"'res51' is not a model .* Did you mean 'res50'"):
        zoo.profile("res51")


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("res18", ["resnet18", "ResNet-18", "RES18"]),
        ("res50", ["resnet50", "resnet_50"]),
        ("mobilenet", ["mobilenet_v2", "MobileNet-v2"]),
        ("shufflenet", ["shufflenet_v2_x0_5"]),
        ("resnet101", ["ResNet-101"]),
        ("shufflenet_v2_x1_0", ["ShuffleNet-v2-x1.0"]),
    ],
)
def test_a_model_is_one_profile_under_all_its_names(zoo: Zoo, key: str, names: list[str]) -> None:
    assert zoo.profile(key).name == key
    for name in names:
        assert zoo.profile(name) is zoo.profile(key)
        assert canonical(name) == key


def test_a_name_that_nobody_knows_stays_as_it_is() -> None:
    assert canonical("MyNet") == "MyNet"


def test_one_profile_has_throughput_and_steps(zoo: Zoo) -> None:
    resnet = zoo.profile("resnet50")
    assert resnet.has_throughput
    assert [steps.gpu for steps in zoo.steps("res50")] == ["K80", "M40", "P100", "V100", "RTX6000", "A100"]
    assert zoo.steps("res50") == zoo.steps("resnet50")
    assert zoo.steps("gnmt") == ()


def test_a_model_with_steps_only_is_known_but_not_simulated(zoo: Zoo) -> None:
    assert len(zoo.models) == 13 + 36 - 5 + 2
    assert "vgg16" in zoo.models
    assert "vgg16" not in zoo.names
    with pytest.raises(InputError, match="'vgg16' has no throughput by CPUs and memory"):
        ladder(zoo.profile("vgg16"), (3, 62.5, 62.5))


@pytest.mark.parametrize(
    ("name", "model"),
    [("LM", "lstm"), ("cifar10", "res18"), ("ImageNet", "res50"), ("shufflenet_v2_x1_0", "shufflenet"),
     ("ResNet-18", "res18"), ("deepspeech2", "deepspeech"), ("vgg16", None), ("yolov3", None)],
)  # fmt: skip
def test_names_in_public_traces_have_stand_ins(zoo: Zoo, name: str, model: str | None) -> None:
    assert zoo.stand_in(name) == model


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
