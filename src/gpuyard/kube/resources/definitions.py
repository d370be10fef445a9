"""All kinds that gpuyard defines in a cluster."""

from __future__ import annotations

from typing import Any

from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.resources.custom_kinds import CustomKind
from gpuyard.kube.resources.shared_gpu import SHARED_GPUS
from gpuyard.kube.resources.training_job import TRAINING_JOBS
from gpuyard.kube.resources.training_task import TRAINING_TASKS

CUSTOM_KINDS: tuple[CustomKind[Any, Any], ...] = (SHARED_GPUS, TRAINING_TASKS, TRAINING_JOBS)


def definitions() -> list[JsonObject]:
    """Their definitions, for the installer."""
    return [each.definition() for each in CUSTOM_KINDS]
