"""What clients see of each service: from the profile of its model, or from a folder of models."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyard.core.service import Service
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.profiles.inference import BATCHES, InferenceModel
from gpuyard.serving.protocol.contract import Contract
from gpuyard.serving.protocol.tensors import TensorSpec

EMULATED = "gpuyard_emulated"


def emulated_contracts(services: Sequence[Service], deployment: Deployment) -> dict[str, Contract]:
    """By name, services as their profiles describe them."""
    models = next(iter(deployment.known.values())).models
    return {str(each.service_id): _emulated(each, models[each.model]) for each in services}


def _emulated(service: Service, model: InferenceModel) -> Contract:
    about = {
        "outputs": "zeros: the GPU is emulated, and nothing is computed",
        "model": service.model,
        "slo_ms": f"{service.slo_ms:g}",
    }
    return Contract(
        str(service.service_id), EMULATED, (TensorSpec("input", *model.input),), (TensorSpec("output", *model.output),),
        BATCHES, about,
    )  # fmt: skip
