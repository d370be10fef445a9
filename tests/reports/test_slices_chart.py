"""The picture of GPUs and their slices."""

from pathlib import Path

import pytest

from gpuyard.core.errors import InputError
from gpuyard.core.service import Service
from gpuyard.policies.partition import PartitionPlan, Slice, Turn
from gpuyard.policies.partition.deployment import Deployment, serving_cluster
from gpuyard.reports.slices_chart import draw_slices

SERVICES = (Service("faces", "resnet50", 100.0, 108.0), Service("a/b", "vgg16", 50.0, 142.0))


def deployment(gpus: int) -> Deployment:
    both = (Turn("faces", 8, 0.02), Turn("a/b", 4, 0.03))
    slices = (Slice("node0", 0, 800, 3.0, both, 0.05), Slice("node0", 0, 200, 2.0, (Turn("faces", 1, 0.01),), 0.01))
    return Deployment(SERVICES, serving_cluster(f"{gpus}x2080ti"), PartitionPlan(slices))


@pytest.mark.parametrize("gpus", [1, 4, 16, 64])
def test_every_gpu_and_turn_is_named(gpus: int, tmp_path: Path) -> None:
    draw_slices(deployment(gpus), tmp_path / "slices.svg")
    text = (tmp_path / "slices.svg").read_text()
    assert f"2 services, 150 requests/s on 1 of {gpus} GPUs" in text
    assert f"GPU {gpus - 1}" in text
    assert "faces · batch 8" in text
    assert "a/b · batch 4" in text
    assert text.count(">free<") == gpus - 1
    assert text.count(">RTX2080Ti<") == gpus


def test_every_gpu_has_the_type_of_its_node(tmp_path: Path) -> None:
    mixed = Deployment(SERVICES, serving_cluster("1x2080ti,2x3080"), PartitionPlan(()))
    draw_slices(mixed, tmp_path / "slices.svg")
    text = (tmp_path / "slices.svg").read_text()
    assert (text.count(">RTX2080Ti<"), text.count(">3080<")) == (1, 2)


def test_the_same_plan_gives_the_same_picture(tmp_path: Path) -> None:
    for name in ("one.png", "two.png"):
        draw_slices(deployment(4), tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    assert (tmp_path / "one.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end with \.png or \.svg"):
        draw_slices(deployment(1), tmp_path / "slices.gif")
    assert not list(tmp_path.iterdir())
