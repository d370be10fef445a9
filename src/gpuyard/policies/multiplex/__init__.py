"""Which tasks share a GPU, and with which batch sizes, so that they disturb each other least."""

from gpuyard.policies.multiplex.interface import Multiplex, MultiplexPlan, Sharing

__all__ = ["Multiplex", "MultiplexPlan", "Sharing"]
