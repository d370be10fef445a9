"""The bundled figures of models that are served; read when they are first asked for, as few commands need them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from gpuyard.profiles.names import INFERENCE, canonical
from gpuyard.profiles.reading import bundled_yaml
from gpuyard.profiles.serving_files import gpu_sharing_of, latency_of, serving_of
from gpuyard.profiles.serving_parts import GpuSharing, LatencyProfile, ServingProfile


class BundledServing(NamedTuple):
    """One model."""

    label: str
    """What gpulet and plans of slices call it."""
    aliases: tuple[str, ...]
    latency: tuple[LatencyProfile, ...]
    serving: ServingProfile | None


@lru_cache(maxsize=1)
def bundled_serving() -> Mapping[str, BundledServing]:
    """Every bundled model that can be served, by its key."""
    models = bundled_yaml(INFERENCE)["models"]
    return {
        canonical(name): BundledServing(name, tuple(model.get("aliases", ())), latency_of(model), serving_of(model))
        for name, model in models.items()
    }


@lru_cache(maxsize=1)
def bundled_sharing() -> Mapping[str, GpuSharing]:
    """Every GPU kind on which these are known, by its key."""
    return gpu_sharing_of(bundled_yaml(INFERENCE))
