"""What a run takes for its cluster from what Ray says of its nodes."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.runtime.ray_fleet import RayFleet, cluster_of_ray
from gpuyard.traces import read_cluster


def ray_of(*nodes: dict[str, float], lost: tuple[dict[str, float], ...] = ()) -> Any:
    """As much of Ray as is asked here."""
    told = [{"Alive": each not in lost, "Resources": each} for each in (*nodes, *lost)]
    return SimpleNamespace(nodes=lambda: told)


BIG = {"CPU": 32.0, "GPU": 4.0, "memory": 256e9, "accelerator_type:A100": 1.0, "node:10.0.0.1": 1.0}
PLAIN = {"CPU": 8.0, "GPU": 2.0, "memory": 64e9}


def test_nodes_with_gpus_that_live_are_the_cluster() -> None:
    lost = ({**BIG, "CPU": 33.0}, {**PLAIN, "CPU": 9.0})
    told = cluster_of_ray(ray_of(BIG, PLAIN, BIG, {"CPU": 64.0, "memory": 1e12}, lost=lost))
    assert told == "1x2:cpus=8,memory=64.000GB,type=V100+2x4:cpus=32,memory=256.000GB,type=A100"
    cluster = read_cluster(told)
    found = [cluster.kinds[kind] for kind in cluster.node_kind]
    assert [(each.gpus, each.cpus, each.memory_gb, each.gpu_type) for each in found] == [
        (2, 8.0, 64.0, "V100"), (4, 32.0, 256.0, "A100"), (4, 32.0, 256.0, "A100"),
    ]  # fmt: skip


def test_without_a_gpu_the_cluster_has_to_be_stated() -> None:
    with pytest.raises(InputError, match="knows of no GPU"):
        cluster_of_ray(ray_of({"CPU": 8.0}, lost=(BIG,)))


@pytest.mark.parametrize(
    ("nodes", "asked"),
    [((BIG, BIG), {"CPU": 3.0, "GPU": 2.0}), (({"CPU": 8.0}, {"CPU": 8.0}), {"CPU": 3.0})],
)
def test_gpus_are_asked_of_a_ray_that_knows_of_any(
    nodes: tuple[dict[str, float], ...], asked: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_group(_name: str) -> None:
        raise ValueError

    def new_group(wanted: list[dict[str, float]], **how: str) -> SimpleNamespace:
        assert (wanted, how["strategy"]) == ([asked] * 2, "STRICT_SPREAD")
        return SimpleNamespace(wait=lambda _seconds: True)

    groups = SimpleNamespace(get_placement_group=no_group, placement_group=new_group, remove_placement_group=None)
    monkeypatch.setitem(sys.modules, "ray.util.placement_group", groups)
    ray = ray_of(*nodes)
    ray.util = SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1")
    RayFleet(ray, Cluster.parse("2x2:cpus=3"), tmp_path).reserve()
