"""What a model makes of its allocation, and what a GPU makes of a model: profiles, costs and the bundled zoo."""

from gpuyard.core.gpus import GpuKind
from gpuyard.profiles.collection import GENERIC, Zoo, load_zoo
from gpuyard.profiles.costs import operation_costs, roofline
from gpuyard.profiles.gpu_speed import REFERENCE_GPU, GpuSpeed
from gpuyard.profiles.gpus import find_gpu, gpu_key, gpu_kind, gpu_kinds, parse_gpus
from gpuyard.profiles.ladder import STEP, demand_ladder, ladder
from gpuyard.profiles.model import REFERENCE_SHARE, ModelProfile, rebased
from gpuyard.profiles.names import canonical
from gpuyard.profiles.operations import OperationClass, OperationCosts, Work
from gpuyard.profiles.parts import MemoryProfile, Slowdown
from gpuyard.profiles.published import PublishedDemand, PublishedScalars, published_demand
from gpuyard.profiles.serving_parts import LatencyProfile, ServingProfile
from gpuyard.profiles.step_store import find_step_profile, import_profile
from gpuyard.profiles.steps import StepPoint, StepProfile, StepTime, signature
from gpuyard.profiles.surface import Surface, stacked, surface_speed

__all__ = [
    "GENERIC",
    "REFERENCE_GPU",
    "REFERENCE_SHARE",
    "STEP",
    "GpuKind",
    "GpuSpeed",
    "LatencyProfile",
    "MemoryProfile",
    "ModelProfile",
    "OperationClass",
    "OperationCosts",
    "PublishedDemand",
    "PublishedScalars",
    "ServingProfile",
    "Slowdown",
    "StepPoint",
    "StepProfile",
    "StepTime",
    "Surface",
    "Work",
    "Zoo",
    "canonical",
    "demand_ladder",
    "find_gpu",
    "find_step_profile",
    "gpu_key",
    "gpu_kind",
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
    "stacked",
    "surface_speed",
]
