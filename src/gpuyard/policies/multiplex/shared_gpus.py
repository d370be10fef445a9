"""What a multiplex policy sees: the tasks that want GPUs, in order, the GPUs, and what is known of how mixes do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpuyard.core.workload import DEFAULT_TENANT
from gpuyard.policies.multiplex.interference import InterferenceModel, Usage

GpuPlace = tuple[str, int]
"""A GPU: the name of its node, and its number there."""


@dataclass(frozen=True)
class TaskFact:
    """A training task of one process on one GPU, which others may share."""

    name: int | str
    usage: Usage
    gpu_memory_gb: float
    """With its own batch size; a tuner keeps all who share a GPU within its memory."""
    place: GpuPlace | None = None
    """Where it runs; None: it waits."""
    gpu_types: tuple[str, ...] = ()
    """Those it may use; none named: any."""
    speeds: Mapping[str, float] = field(default_factory=dict)
    """How fast it is alone on a GPU of each type; 1.0 on those that are not named."""
    tenant: str = DEFAULT_TENANT

    def speed_on(self, gpu_type: str) -> float:
        """Return how fast the task is alone on such a GPU."""
        return self.speeds.get(gpu_type, 1.0)

    def at(self, place: GpuPlace | None) -> TaskFact:
        """The same task at another place."""
        return replace(self, place=place)

    def may_use(self, gpu_type: str) -> bool:
        """Whether the task says that such a GPU will do."""
        return not self.gpu_types or gpu_type in self.gpu_types


@dataclass(frozen=True)
class GpuFact:
    """One GPU that tasks may share."""

    node: str
    number: int
    gpu_type: str
    memory_gb: float
    up: bool = True
    """Whether its node is in service."""
    tuning: bool = False
    """Whether batch sizes are being tried there just now."""

    @property
    def place(self) -> GpuPlace:
        """Where it is."""
        return self.node, self.number


@dataclass(frozen=True)
class SharedGpus:
    """GPUs and tasks at one instant: a value, from which a policy makes its plan."""

    gpus: tuple[GpuFact, ...]
    """Those of one node next to each other."""
    tasks: tuple[TaskFact, ...]
    """In the order in which they are to be served."""
    known: InterferenceModel = field(default_factory=InterferenceModel)
    quotas: Mapping[str, float] = field(default_factory=dict)
    """GPUs that a tenant may use; each of its tasks counts as one, whoever shares it."""


@dataclass(frozen=True)
class SharedRoom:
    """One GPU as a place for one task, with those who would share it."""

    task: TaskFact
    gpu: GpuFact
    others: tuple[TaskFact, ...]
    known: InterferenceModel

    @property
    def free_gb(self) -> float:
        """GPU memory that nobody there needs."""
        return self.gpu.memory_gb - sum(each.gpu_memory_gb for each in self.others)

    @property
    def mix(self) -> tuple[Usage, ...]:
        """Who would be there, the newcomer last."""
        return (*(each.usage for each in self.others), self.task.usage)
