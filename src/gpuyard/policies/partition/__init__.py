"""How GPUs are cut into slices for services, and which services take turns on each slice."""

from gpuyard.policies.partition.interface import Partition, PartitionPlan, Slice, Turn

__all__ = ["Partition", "PartitionPlan", "Slice", "Turn"]
