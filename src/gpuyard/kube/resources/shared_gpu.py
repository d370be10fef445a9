"""SharedGPU: one GPU of a node, named `<node>-<number>`. The daemon of its node alone writes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.kube.resources.conditions import Condition
from gpuyard.kube.resources.custom_kinds import Column, CustomKind, CustomObject
from gpuyard.policies.multiplex.interference import Observation, Usage, is_slowdown

MOST_MEASURED = 32
"""Of measured mixes, the newest ones are kept in an object."""
PHASES = ("Empty", "Alone", "Shared", "Settle", "Explore", "Apply", "Stable")
"""Nobody is there; one; several, of whom at most one lets its size be chosen; and the phases of a tuner."""
_COUNT = {"minimum": 0}
_TIME = {"format": "date-time"}


@dataclass(frozen=True)
class GpuWanted:
    """Which GPU it is."""

    node: Annotated[str, "The node that it is in."] = ""
    index: Annotated[int, "Its number there.", _COUNT] = 0
    kind: Annotated[str, "The key of its type; empty where nobody says."] = ""
    memory_gib: Annotated[int, "The GiB of memory that pods can ask for.", _COUNT] = 0


@dataclass(frozen=True)
class TaskOnGpu:
    """A pod on the GPU."""

    pod: Annotated[str, "The name of its pod."] = ""
    namespace: Annotated[str, "The namespace of its pod."] = ""
    model: Annotated[str, "Which model it trains, as its pod says."] = ""
    memory_gib: Annotated[int, "The GiB of the GPU's memory that it was given.", _COUNT] = 0
    batch: Annotated[int | None, "Its batch size, where it has said one."] = None
    slowdown: Annotated[float | None, "By how much longer its steps take than alone. Missing while unknown."] = None
    last_heard: Annotated[str | None, "When it last said something; missing if it never did.", _TIME] = None


@dataclass(frozen=True)
class MemberUsage:
    """One of the tasks of a mix that was measured, and how much it uses of a GPU alone."""

    model: Annotated[str, "Which model it trains."] = ""
    compute: Annotated[float, "The part of the time in which it keeps the GPU's processors busy alone."] = 0.0
    bandwidth: Annotated[float, "The same of the GPU's memory."] = 0.0
    batch: Annotated[float, "Its batch size, relative to its own one."] = 1.0


@dataclass(frozen=True)
class MeasuredMix:
    """By how much one of the tasks that share a GPU was slower than alone, with the batch sizes of that time."""

    company: Annotated[tuple[MemberUsage, ...], "All tasks on the GPU."] = ()
    measured: Annotated[tuple[int, ...], "Positions in the company of those who were measured."] = ()
    slowdown: Annotated[float, "The sum of their slowdowns: 0.5 is half as long again."] = 0.0
    error: Annotated[float, "The standard error of the sum.", _COUNT] = 0.0
    gpu_kind: Annotated[str, "The key of the GPU's type."] = ""
    at: Annotated[str, "When; together with who was measured it says which measurement this is.", _TIME] = ""

    def observation(self) -> Observation | None:
        """For the model of interference; None if it makes no sense."""
        parts = [part for each in self.company for part in (each.compute, each.bandwidth)]
        sound = (
            len(self.company) >= 2
            and all(0 <= part <= 1 for part in parts)
            and all(each.model and 0 < each.batch < float("inf") for each in self.company)
            and 0 < len(self.measured) == len({*self.measured} & set(range(len(self.company))))
            and is_slowdown(self.slowdown, len(self.measured))
            and 0 <= self.error < float("inf")
        )
        mix = tuple(Usage(each.model, each.compute, each.bandwidth, each.batch) for each in self.company)
        return Observation(mix, self.measured, self.slowdown, self.error, self.gpu_kind) if sound else None


@dataclass(frozen=True)
class GpuState:
    """Who is on the GPU, what its tuner is doing, and what was measured there."""

    phase: Annotated[
        str, "Empty, Alone, Shared (nobody lets his size be chosen), Settle, Explore, Apply or Stable."
    ] = "Empty"
    tasks: Annotated[tuple[TaskOnGpu, ...], "The pods on it."] = ()
    observations: Annotated[tuple[MeasuredMix, ...], "What was measured, the oldest first."] = ()
    conditions: Annotated[tuple[Condition, ...], "What is true of it, and why."] = ()
    observed_at: Annotated[str | None, "When its node last said so.", _TIME] = None


SharedGpu = CustomObject[GpuWanted, GpuState]

SHARED_GPUS = CustomKind(
    kind="SharedGPU",
    plural="sharedgpus",
    short="sg",
    namespaced=False,
    meaning="A GPU that tasks share: who is on it, how their batch sizes are tuned, and what was measured of them.",
    spec=GpuWanted,
    status=GpuState,
    required=("node", "index"),
    columns=(
        Column("Node", ".spec.node"),
        Column("GPU", ".spec.index", "integer"),
        Column("Kind", ".spec.kind"),
        Column("GiB", ".spec.memoryGib", "integer"),
        Column("Phase", ".status.phase"),
        Column("Why", ".status.conditions[?(@.type=='Tuning')].message", wide=True),
    ),
)


def shared_gpu_name(node: str, index: int) -> str:
    """The name of the object of a GPU."""
    return f"{node}-{index}"
