"""Nodes of Kubernetes as policies see them: GPUs of one kind, and what of CPUs and memory strangers leave of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpuyard.core.cluster import Cluster, NodeGroup, NodeKind
from gpuyard.kube.amounts import BesideGpus, node_amounts
from gpuyard.kube.objects import YardNode, read_node
from gpuyard.kube.one_kind import of_one_kind

UNLIMITED = 1e6
"""Of what Kubernetes does not count: storage and network bandwidth."""


@dataclass(frozen=True)
class KubeNode:
    """A node, its GPUs, and what pods can have beside them."""

    yard: YardNode
    beside: BesideGpus
    ready: bool
    open: bool
    """Whether new pods may come."""


@dataclass(frozen=True)
class GangNode:
    """GPUs of one kind in a node, with their part of its CPUs and memory: a node as policies and ledgers know it."""

    name: str
    node: str
    kind: NodeKind
    gpus: tuple[int, ...]
    """Their numbers on the node, by position."""
    closed: tuple[int, ...]
    """Positions that nobody can get: out of order, or the node takes no new pods now."""
    ready: bool


def read_kube_node(item: Mapping[str, Any]) -> KubeNode:
    """Read what matters of a node."""
    status, spec = item.get("status") or {}, item.get("spec") or {}
    conditions = {str(each.get("type")): each.get("status") for each in status.get("conditions") or ()}
    return KubeNode(
        read_node(item), node_amounts(item) or BesideGpus(), conditions.get("Ready") == "True",
        not spec.get("unschedulable"),
    )  # fmt: skip


def gang_nodes(node: KubeNode, taken: BesideGpus) -> Iterator[GangNode]:
    """A node for each kind of GPUs; `taken` is what strangers have of its CPUs and memory."""
    left = node.beside.beyond(taken)
    for each in of_one_kind(node.yard):
        kind = replace(each.node_kind(left.times(each.part)), storage_mbps=UNLIMITED, network_gbps=UNLIMITED)
        takes = node.open and node.ready
        closed = tuple(at for at, gpu in enumerate(each.gpus) if not (gpu.healthy and takes))
        indices = tuple(gpu.index for gpu in each.gpus)
        yield GangNode(each.name, node.yard.name, kind, indices, closed, node.ready)


def cluster_of(nodes: Iterable[GangNode]) -> Cluster | None:
    """These nodes as a cluster; None where there is no GPU."""
    found = tuple(nodes)
    if not found:
        return None
    return Cluster(tuple(NodeGroup(1, each.kind) for each in found), tuple(each.name for each in found))
