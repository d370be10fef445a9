"""What a snapshot knows for those who share GPUs: how tasks use a GPU, and what was measured of mixes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuyard.policies.multiplex.interference import InterferenceModel, Usage


class TaskUse(NamedTuple):
    """One task: how it uses a GPU alone, and the memory that it asks for."""

    usage: Usage
    gpu_memory_gb: float


@dataclass(frozen=True)
class SharingFacts:
    """What multiplex policies go by; where nothing is said of a task, the profile of its model counts."""

    policy: str = ""
    """By which tasks share GPUs in the world that this is of; empty where nobody says."""
    tasks: Mapping[Hashable, TaskUse] = field(default_factory=dict)
    """By job id."""
    known: InterferenceModel = field(default_factory=InterferenceModel)


NOTHING_KNOWN = SharingFacts()
