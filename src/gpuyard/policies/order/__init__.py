"""Which job first. An order is a function from a snapshot to keys, lowest first, over the snapshot's active jobs."""

from gpuyard.policies.order.drf import drf
from gpuyard.policies.order.fifo import fifo
from gpuyard.policies.order.ftf import ftf
from gpuyard.policies.order.las import las
from gpuyard.policies.order.srtf import srsf, srtf
from gpuyard.policies.order.tetris import tetris

__all__ = ["drf", "fifo", "ftf", "las", "srsf", "srtf", "tetris"]
