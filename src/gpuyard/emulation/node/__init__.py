"""What the processes of one emulated machine share: who uses which GPU, with how much memory, and how fast."""

from gpuyard.emulation.node.client import SharedGpuClient
from gpuyard.emulation.node.description import GpuSlot
from gpuyard.emulation.node.gpu_busy import GpuBusyError
from gpuyard.emulation.node.machine import Node
from gpuyard.emulation.node.view import ClientView, GpuView, NodeView, live_nodes, node

__all__ = [
    "ClientView",
    "GpuBusyError",
    "GpuSlot",
    "GpuView",
    "Node",
    "NodeView",
    "SharedGpuClient",
    "live_nodes",
    "node",
]
