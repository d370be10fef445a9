"""A cluster is groups of equal nodes; a node has GPUs of one type and resources beside them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import groupby
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuyard.core import units
from gpuyard.core.arguments import check_kind, check_number
from gpuyard.core.arrays import read_only
from gpuyard.core.errors import InputError, nearest
from gpuyard.core.gpus import GpuKind

RESOURCES = ("cpus", "memory_gb", "storage_mbps", "network_gbps")
"""What a node has beside its GPUs, in the order of every resource vector in gpuyard."""

CPU, MEMORY, STORAGE, NETWORK = range(4)


DEFAULT_GPU_TYPE = "V100"

DEFAULT_GPU_MEMORY_GB = 32510 * 2**20 / 1e9
"""What a GPU of the default type has; the best guess for a kind that is only a name, too."""

MOST_NODES = 1_000_000
MOST_GPUS = 10_000_000
"""A GPU takes about a hundred bytes while it is simulated, a node some more."""

_NOT_LOOKED_UP = GpuKind.named("")


def _refuse_many(what: str, found: int, most: int) -> None:
    if found > most:
        raise InputError(f"{what} are more than gpuyard simulates: {most} at most", field="cluster", value=found)


@dataclass(frozen=True, slots=True)
class NodeKind:
    """One kind of server. Its GPUs are of one kind, which may be only a name until it is looked up."""

    gpus: int = 8
    cpus: float = 24.0
    memory_gb: float = 500.0
    storage_mbps: float = 500.0
    network_gbps: float = 40.0
    gpu_type: str = DEFAULT_GPU_TYPE
    """The key of its GPUs' kind."""
    gpu_memory_gb: float = nan
    """Of one GPU; left out, what its kind has."""
    gpu: GpuKind = field(default=_NOT_LOOKED_UP, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.gpu_type, str) or not self.gpu_type.strip():
            raise InputError("must be the name of a GPU type", field="gpu_type", value=self.gpu_type)
        if self.gpu is _NOT_LOOKED_UP:
            object.__setattr__(self, "gpu", GpuKind.named(self.gpu_type))
        if self.gpu.key != self.gpu_type:
            raise InputError(
                f"is not the node's GPU kind, which is {self.gpu.key}", field="gpu_type", value=self.gpu_type
            )
        if self.gpu_memory_gb != self.gpu_memory_gb:  # NaN
            object.__setattr__(self, "gpu_memory_gb", self.usual_gpu_memory_gb)
        check_number(self.gpus, "gpus", least=0, whole=True)
        _refuse_many("GPUs", self.gpus, MOST_GPUS)
        for name in (*RESOURCES, "gpu_memory_gb"):
            check_number(getattr(self, name), name, least=0)

    @property
    def amounts(self) -> tuple[float, float, float, float]:
        """The node's resources in the order of RESOURCES."""
        return (self.cpus, self.memory_gb, self.storage_mbps, self.network_gbps)

    @property
    def usual_gpu_memory_gb(self) -> float:
        """What a GPU of this kind has when nothing else is said."""
        return self.gpu.memory_bytes / 1e9 or DEFAULT_GPU_MEMORY_GB

    def with_gpu(self, gpu: GpuKind) -> NodeKind:
        """Return the same node with GPUs of this kind, and with their memory unless another was stated."""
        stated = self.gpu_memory_gb if self.gpu_memory_gb != self.usual_gpu_memory_gb else nan
        return replace(self, gpu=gpu, gpu_type=gpu.key, gpu_memory_gb=stated)


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """A number of equal nodes."""

    count: int
    kind: NodeKind = field(default_factory=NodeKind)

    def __post_init__(self) -> None:
        check_number(self.count, "nodes", least=1, whole=True)
        check_kind(self.kind, "kind", "a NodeKind", NodeKind)


@dataclass(frozen=True)
class Cluster:
    """Groups of nodes. Node and GPU numbers run through the groups in order, from 0."""

    groups: tuple[NodeGroup, ...]
    names: tuple[str, ...] = ()
    """One for each node; node0, node1, … without."""

    def __post_init__(self) -> None:
        check_kind(self.groups, "groups", "a tuple of NodeGroup", tuple)
        for group in self.groups:
            check_kind(group, "groups", "a tuple of NodeGroup", NodeGroup)
        if self.total_gpus == 0:
            raise InputError("a cluster needs at least one GPU", field="cluster")
        _refuse_many("nodes", self.nodes, MOST_NODES)
        _refuse_many("GPUs", self.total_gpus, MOST_GPUS)
        if self.names and len(set(self.names)) != self.nodes:
            raise InputError("must be a name of its own for each node", field="names", value=len(set(self.names)))

    @classmethod
    def uniform(cls, nodes: int, kind: NodeKind | None = None) -> Cluster:
        """Build a cluster of equal nodes."""
        return cls((NodeGroup(nodes, NodeKind() if kind is None else kind),))

    @classmethod
    def parse(cls, text: str) -> Cluster:
        """Read the short form: '16x8:cpus=24,memory=500GB', several groups joined by '+'."""
        check_kind(text, "cluster", "text such as 16x8:cpus=24,memory=500GB", str)
        return cls(tuple(_parse_group(part) for part in text.split("+")))

    def with_gpus(self, look_up: Callable[[str], GpuKind]) -> Cluster:
        """Return the same cluster with the kind of each node's GPUs looked up by its name."""
        groups = (NodeGroup(group.count, group.kind.with_gpu(look_up(group.kind.gpu_type))) for group in self.groups)
        return Cluster(tuple(groups), self.names)

    def sorted_by_kind(self) -> tuple[Cluster, NDArray[np.int64]]:
        """The same nodes in an order that does not depend on how they were written down, and the number each had."""
        keys = [(kind.gpu_type, kind.gpus, kind.amounts, kind.gpu_memory_gb) for kind in self.kinds]
        rank = np.array([sorted(keys).index(key) for key in keys])[self.node_kind]
        before = np.argsort(rank, kind="stable")
        groups = [(kind, len(list(run))) for kind, run in groupby(self.kinds[k] for k in self.node_kind[before])]
        names = tuple(self.node_names[number] for number in before)
        return Cluster(tuple(NodeGroup(count, kind) for kind, count in groups), names), before

    @cached_property
    def node_names(self) -> tuple[str, ...]:
        """What each node is called."""
        return self.names or tuple(f"node{number}" for number in range(self.nodes))

    @cached_property
    def kinds(self) -> tuple[NodeKind, ...]:
        """The distinct kinds of node, in order of first appearance."""
        return tuple(dict.fromkeys(group.kind for group in self.groups))

    @cached_property
    def gpu_types(self) -> tuple[str, ...]:
        """The distinct GPU types, in order of first appearance."""
        return tuple(dict.fromkeys(kind.gpu_type for kind in self.kinds if kind.gpus))

    @cached_property
    def node_kind(self) -> NDArray[np.int64]:
        """For each node, the index of its kind in `kinds`."""
        index = {kind: i for i, kind in enumerate(self.kinds)}
        kinds = np.array([index[group.kind] for group in self.groups], dtype=np.int64)
        return read_only(np.repeat(kinds, [group.count for group in self.groups]))

    @cached_property
    def node_gpus(self) -> NDArray[np.int64]:
        """For each node, its number of GPUs."""
        return read_only(np.array([kind.gpus for kind in self.kinds], dtype=np.int64)[self.node_kind])

    @cached_property
    def capacity(self) -> NDArray[np.float64]:
        """Nodes by RESOURCES."""
        return read_only(np.array([kind.amounts for kind in self.kinds], dtype=np.float64)[self.node_kind])

    @property
    def nodes(self) -> int:
        """How many nodes."""
        return sum(group.count for group in self.groups)

    @property
    def total_gpus(self) -> int:
        """How many GPUs."""
        return sum(group.count * group.kind.gpus for group in self.groups)

    def __str__(self) -> str:
        return "+".join(_format_group(group) for group in self.groups)


_FIELDS = {
    "cpus": ("cpus", units.PLAIN),
    "memory": ("memory_gb", units.GIGABYTES),
    "storage": ("storage_mbps", units.MEGABYTES_PER_SECOND),
    "network": ("network_gbps", units.GIGABITS_PER_SECOND),
    "gpu_memory": ("gpu_memory_gb", units.GIGABYTES),
}


_COUNT = re.compile(r"\s*[0-9]{1,18}\s*")


def _parse_group(text: str) -> NodeGroup:
    shape, _, options = text.strip().partition(":")
    nodes, _, gpus = shape.partition("x")
    if not (_COUNT.fullmatch(nodes) and _COUNT.fullmatch(gpus)):
        raise InputError(
            "is not NODESxGPUS[:OPTION=VALUE,…]",
            field="cluster",
            value=text,
            hint="Example: 16x8:cpus=24,memory=500GB; or name a cluster file",
        )
    values: dict[str, Any] = {}
    gpu_type = DEFAULT_GPU_TYPE
    for option in filter(None, (part.strip() for part in options.split(","))):
        name, _, value = option.partition("=")
        if name == "type":
            gpu_type = value.strip()
        elif name in _FIELDS:
            target, table = _FIELDS[name]
            values[target] = units.amount(value, table, name)
        else:
            raise InputError(
                "is not an option of a node", field="cluster", value=name, hint=nearest(name, [*_FIELDS, "type"])
            )
    return NodeGroup(int(nodes), NodeKind(gpus=int(gpus), gpu_type=gpu_type, **values))


def _format_group(group: NodeGroup) -> str:
    usual = {each.name: each.default for each in fields(NodeKind)} | {"gpu_memory_gb": group.kind.usual_gpu_memory_gb}
    parts = [
        f"{name}={getattr(group.kind, target):g}"
        for name, (target, _) in _FIELDS.items()
        if name in {"cpus", "memory"} or getattr(group.kind, target) != usual[target]
    ]
    if group.kind.gpu_type != DEFAULT_GPU_TYPE:
        parts.append(f"type={group.kind.gpu_type}")
    return f"{group.count}x{group.kind.gpus}:{','.join(parts)}"
