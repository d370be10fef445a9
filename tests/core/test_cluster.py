"""What a node says of its GPUs."""

from dataclasses import replace

import pytest

from gpuyard.core.cluster import DEFAULT_GPU_MEMORY_GB, Cluster, NodeKind
from gpuyard.core.errors import InputError
from gpuyard.core.gpus import GpuKind, folded

KIND = GpuKind(key="X1", name="Example X1", memory_bytes=2**35, flops={"fp32": 1e13}, bandwidth=1e12)


def look_up(name: str) -> GpuKind:
    return KIND if folded(name) in ("x1", "examplex1") else GpuKind.named(name)


def test_until_it_is_looked_up_a_kind_is_only_a_name() -> None:
    node = NodeKind(gpu_type="x-1")
    assert (node.gpu.key, node.gpu.has_data_sheet, node.gpu_memory_gb) == ("x-1", False, DEFAULT_GPU_MEMORY_GB)


def test_spellings_of_one_kind_become_one_kind() -> None:
    cluster = Cluster.parse("1x8:type=x-1+2x8:type=Example X1+1x8:type=other").with_gpus(look_up)
    assert cluster.gpu_types == ("X1", "other")
    assert len(cluster.kinds) == 2
    assert [kind.gpu.has_data_sheet for kind in cluster.kinds] == [True, False]


def test_memory_follows_the_kind_unless_it_is_stated() -> None:
    assert NodeKind(gpu_type="x1").with_gpu(KIND).gpu_memory_gb == KIND.memory_bytes / 1e9
    assert NodeKind(gpu_type="x1", gpu_memory_gb=16).with_gpu(KIND).gpu_memory_gb == 16
    assert NodeKind().with_gpu(KIND).with_gpu(GpuKind.named("other")).gpu_memory_gb == DEFAULT_GPU_MEMORY_GB


def test_a_node_is_written_with_what_is_not_usual() -> None:
    node = NodeKind().with_gpu(KIND)
    assert str(Cluster.uniform(2, node)) == "2x8:cpus=24,memory=500,type=X1"
    assert str(Cluster.uniform(2, replace(node, gpu_memory_gb=80))) == "2x8:cpus=24,memory=500,gpu_memory=80,type=X1"


def test_a_type_cannot_contradict_the_kind() -> None:
    with pytest.raises(InputError, match="field gpu_type: 'X2' is not the node's GPU kind, which is X1"):
        replace(NodeKind().with_gpu(KIND), gpu_type="X2")


@pytest.mark.parametrize("name", ["node_kind", "node_gpus", "capacity"])
def test_nobody_writes_into_a_cluster(name: str) -> None:
    """It is a value, and policies see it through their snapshots."""
    with pytest.raises(ValueError, match="read-only"):
        getattr(Cluster.parse("2x8+1x4:type=A100"), name)[0] = 1
