"""Every model of the published tables trains, and takes the memory that was measured."""

from pathlib import Path

import pytest
from tests.emulation.programs.running import need, run

from benchmarks.emulated import models

GROUPS = (
    "alexnet vgg11 vgg13 vgg16 vgg19 squeezenet1_0 squeezenet1_1",
    "vgg11_bn vgg13_bn vgg16_bn vgg19_bn resnet18 resnet34 resnet50",
    "resnet101 resnet152 resnext50_32x4d resnext101_32x8d wide_resnet50_2 wide_resnet101_2",
    "densenet121 densenet161 densenet169 densenet201",
    "googlenet mnasnet0_5 mnasnet0_75 mnasnet1_0 mnasnet1_3 mobilenet_v2",
    "mobilenet_v3_large mobilenet_v3_small shufflenet_v2_x0_5 shufflenet_v2_x1_0 shufflenet_v2_x1_5 shufflenet_v2_x2_0",
)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.split()[0])
def test_models_train_with_every_implementation_of_their_optimizers(group: str) -> None:
    trained = [line.split()[0] for line in run("model_zoo", *group.split(), gpus="A100").stdout.splitlines()]
    assert trained == group.split()


def test_groups_hold_every_model_of_the_tables(shared_data: Path) -> None:
    published = {row["model"] for row in models.measured("compute_time.csv")}
    assert published == set(" ".join(GROUPS).split())


def test_peak_memory_is_within_three_percent_of_the_measured_one(shared_data: Path) -> None:
    need("torch", "torchvision")
    chosen = {"alexnet", "resnet18", "vgg16", "mobilenet_v2", "squeezenet1_1", "shufflenet_v2_x1_0"}
    errors = models.memory_errors(chosen, batches=(8, 32, 128))
    assert len(errors) >= 12
    assert {case: error for case, error in errors.items() if abs(error) > 0.03} == {}
