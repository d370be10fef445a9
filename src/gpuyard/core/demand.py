"""What a job would like: the one word for it in gpuyard, whether a profile says so or the job itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Demand:
    """What a whole job would like."""

    gpus: float
    cpus: float
    memory_gb: float
    storage_mbps: float
