"""What inference takes on a slice of a GPU: latency by batch and slice, gathering a batch, memory, interference."""

from gpuyard.profiles.inference.bundled import (
    Latencies,
    bundled_inference,
    gpulet_ids,
    inference_model,
    read_latencies,
    serving_gpu,
    serving_gpus,
    with_latencies,
    with_slices,
)
from gpuyard.profiles.inference.devices import read_devices
from gpuyard.profiles.inference.model import BATCHES, InferenceModel, Interference, ServingGpu, TensorKind, Traffic

__all__ = [
    "BATCHES",
    "InferenceModel",
    "Interference",
    "Latencies",
    "ServingGpu",
    "TensorKind",
    "Traffic",
    "bundled_inference",
    "gpulet_ids",
    "inference_model",
    "read_devices",
    "read_latencies",
    "serving_gpu",
    "serving_gpus",
    "with_latencies",
    "with_slices",
]
