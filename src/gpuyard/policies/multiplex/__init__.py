"""Which tasks share a GPU, and with which batch sizes, so that they disturb each other least."""

from gpuyard.policies.multiplex.interface import Multiplex, MultiplexPlan, Sharing
from gpuyard.policies.multiplex.shared_gpus import GpuFact, SharedGpus, SharedRoom, TaskFact

__all__ = ["GpuFact", "Multiplex", "MultiplexPlan", "SharedGpus", "SharedRoom", "Sharing", "TaskFact"]
