"""What the processes of one emulated machine share: who sits at which GPU, with how much memory, and how fast."""

from gpuyard.emulation.node.machine import GpuBusyError, Node
from gpuyard.emulation.node.making import GpuSlot
from gpuyard.emulation.node.seat import Seat
from gpuyard.emulation.node.sharing import Policy, Sharing, rates
from gpuyard.emulation.node.view import GpuView, NodeView, SeatView, live_nodes, node

__all__ = [
    "GpuBusyError",
    "GpuSlot",
    "GpuView",
    "Node",
    "NodeView",
    "Policy",
    "Seat",
    "SeatView",
    "Sharing",
    "live_nodes",
    "node",
    "rates",
]
