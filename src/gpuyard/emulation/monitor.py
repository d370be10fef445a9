"""What the emulated GPUs of this machine do right now, as values: for `gpuyard smi`, the exporter and the dashboard."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.emulation.node import ClientView, GpuView, NodeView, live_nodes
from gpuyard.emulation.node import node as find_node
from gpuyard.sharing.monitor import command_of


@dataclass(frozen=True)
class ProcessReading:
    """One process at a GPU."""

    pid: int
    command: str
    memory_bytes: int
    utilisation: float
    """Part of the GPU's time that went to it, 0 to 1."""


@dataclass(frozen=True)
class GpuReading:
    """One GPU. Memory is what torch and NVML report; utilisation is that of the last second, 0 to 1."""

    index: int
    key: str
    name: str
    uuid: str
    memory_used_bytes: int
    memory_total_bytes: int
    utilisation: float
    temperature_c: float
    power_w: float
    power_limit_w: float
    processes: tuple[ProcessReading, ...]


@dataclass(frozen=True)
class NodeReading:
    """One emulated machine that is in use."""

    node: str
    speed: float
    """Emulated seconds per second."""
    sharing: str
    gpus: tuple[GpuReading, ...]


def read(node: str | None = None) -> list[NodeReading]:
    """Read all nodes in use, or the one of this name if it is in use."""
    return [_node(view) for view in live_nodes() if node in (None, view.name)]


def read_live(node: str | None = None) -> list[NodeReading]:
    """Read all nodes once, or one, which must be in use."""
    if node is not None:
        find_node(node)
    return read(node)


def _node(view: NodeView) -> NodeReading:
    return NodeReading(view.name, view.speed, str(view.sharing), tuple(map(_gpu, view.gpus)))


def _gpu(view: GpuView) -> GpuReading:
    slot = view.slot
    return GpuReading(
        index=view.index,
        key=slot.key,
        name=slot.name,
        uuid=view.uuid,
        memory_used_bytes=view.memory_used,
        memory_total_bytes=slot.memory_bytes,
        utilisation=view.utilisation,
        temperature_c=view.celsius,
        power_w=view.watts,
        power_limit_w=slot.max_watts,
        processes=tuple(map(_process, view.clients)),
    )


def _process(view: ClientView) -> ProcessReading:
    return ProcessReading(view.pid, command_of(view.pid), view.memory_bytes, view.utilisation)
