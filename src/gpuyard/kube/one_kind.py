"""Policies know nodes with GPUs of one kind: a node of Kubernetes with several kinds is one node for each."""

from __future__ import annotations

from typing import NamedTuple

from gpuyard.core.cluster import NodeKind
from gpuyard.core.units import GB_OF_GIB
from gpuyard.kube.amounts import BesideGpus
from gpuyard.kube.objects import YardGpu, YardNode
from gpuyard.profiles.gpus import gpu_kind

UNKNOWN_KIND = "unknown"


class OneKind(NamedTuple):
    """The GPUs of one kind in a node."""

    name: str
    """That of the node; further kinds have a number behind it."""
    kind: str
    memory_gib: int
    gpus: tuple[YardGpu, ...]
    part: float
    """Of all GPUs of the node; what is beside GPUs is divided by it."""

    def node_kind(self, beside: BesideGpus) -> NodeKind:
        """A node with these GPUs, with so much beside them."""
        plain = NodeKind(
            len(self.gpus), beside.cpus, beside.memory_gb, gpu_type=self.kind,
            gpu_memory_gb=self.memory_gib * GB_OF_GIB,
        )  # fmt: skip
        return plain.with_gpu(gpu_kind(self.kind)) if self.kind != UNKNOWN_KIND else plain


def of_one_kind(node: YardNode) -> list[OneKind]:
    """A node for each kind of its GPUs."""
    groups: dict[tuple[str, int], list[YardGpu]] = {}
    for gpu in node.gpus:
        groups.setdefault((gpu.kind or UNKNOWN_KIND, gpu.memory_gib), []).append(gpu)
    return [
        OneKind(f"{node.name}+{number}" if number else node.name, *key, tuple(gpus), len(gpus) / len(node.gpus))
        for number, (key, gpus) in enumerate(groups.items())
    ]
