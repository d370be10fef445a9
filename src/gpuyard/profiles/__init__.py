"""What a model makes of its allocation, and what a GPU makes of a model: profiles, costs and the bundled zoo."""

from gpuyard.profiles.collection import GENERIC, Zoo, load_zoo
from gpuyard.profiles.gpus import GpuKind, find_gpu, gpu_kinds, parse_gpus
from gpuyard.profiles.ladder import demand_ladder, ladder
from gpuyard.profiles.model import REFERENCE_SHARE, ModelProfile, rebased
from gpuyard.profiles.operations import OperationClass, OperationCosts, Work, operation_costs, roofline
from gpuyard.profiles.published import PublishedDemand, PublishedScalars, published_demand
from gpuyard.profiles.step_store import find_step_profile, import_profile
from gpuyard.profiles.steps import StepPoint, StepProfile, StepTime, signature

__all__ = [
    "GENERIC",
    "REFERENCE_SHARE",
    "GpuKind",
    "ModelProfile",
    "OperationClass",
    "OperationCosts",
    "PublishedDemand",
    "PublishedScalars",
    "StepPoint",
    "StepProfile",
    "StepTime",
    "Work",
    "Zoo",
    "demand_ladder",
    "find_gpu",
    "find_step_profile",
    "gpu_kinds",
    "import_profile",
    "ladder",
    "load_zoo",
    "operation_costs",
    "parse_gpus",
    "published_demand",
    "rebased",
    "roofline",
    "signature",
]
