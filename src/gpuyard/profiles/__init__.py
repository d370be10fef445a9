"""What a model makes of its allocation: throughput profiles, the ladders policies climb, and the bundled zoo."""

from gpuyard.profiles.collection import GENERIC, Zoo, load_zoo
from gpuyard.profiles.gpus import GpuKind, find_gpu, gpu_kinds, parse_gpus
from gpuyard.profiles.ladder import demand_ladder, ladder
from gpuyard.profiles.model import REFERENCE_SHARE, ModelProfile, rebased
from gpuyard.profiles.operations import OperationClass, OperationCosts, Work, operation_costs, roofline
from gpuyard.profiles.published import PublishedDemand, PublishedScalars, published_demand

__all__ = [
    "GENERIC",
    "REFERENCE_SHARE",
    "GpuKind",
    "ModelProfile",
    "OperationClass",
    "OperationCosts",
    "PublishedDemand",
    "PublishedScalars",
    "Work",
    "Zoo",
    "demand_ladder",
    "find_gpu",
    "gpu_kinds",
    "ladder",
    "load_zoo",
    "operation_costs",
    "parse_gpus",
    "published_demand",
    "rebased",
    "roofline",
]
