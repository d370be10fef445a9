"""What a container is given so that it finds its GPUs, wherever these come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuyard.client.session import SOCKET as AGENT
from gpuyard.client.shared_batch import SOCKET, TASK
from gpuyard.kube import names
from gpuyard.kube.device_ids import by_gpu
from gpuyard.kube.objects import YardGpu
from gpuyard.kube.task_records import TaskRecords

IN_POD = Path("/opt/gpuyard")
RECORDS, SOCKETS, NOTES, POD_DEVICES = "records", "sockets", "notes", "pods.json"
TASK_SOCKET, STEPS_SOCKET = "tasks.sock", "steps.sock"


@dataclass(frozen=True)
class GpusForContainer:
    """Variables, mounts as (there, here, read-only), and devices of the node that it may open."""

    environment: dict[str, str]
    mounts: list[tuple[str, str, bool]] = field(default_factory=list)
    device_nodes: list[str] = field(default_factory=list)

    def __add__(self, other: GpusForContainer) -> GpusForContainer:
        return GpusForContainer(
            self.environment | other.environment,
            [*self.mounts, *other.mounts],
            [*self.device_nodes, *other.device_nodes],
        )


@dataclass(frozen=True)
class TaskFolder:
    """A folder of the node: what is noted of containers for the node daemon, and its socket."""

    path: Path

    @property
    def records(self) -> TaskRecords:
        """What is noted of containers."""
        return TaskRecords(self.path / RECORDS)

    def prepare(self) -> None:
        """Make the folder that containers see."""
        (self.path / SOCKETS).mkdir(parents=True, exist_ok=True)

    def given(self, resource: str, devices: Sequence[str]) -> GpusForContainer:
        """The way to the node daemon; who shares with nobody has nothing to be tuned for."""
        sockets = IN_POD / SOCKETS
        variables = {TASK: self.records.add(resource, devices), AGENT: str(sockets / STEPS_SOCKET)}
        if resource != names.WHOLE_GPUS:
            variables[SOCKET] = str(sockets / TASK_SOCKET)
        return GpusForContainer(variables, [(str(sockets), str(self.path / SOCKETS), True)])


def as_iadeep_says(resource: str, devices: Sequence[str], pod_gib: int, gpus: Sequence[YardGpu]) -> GpusForContainer:
    """The variables that IADeep's manifests expect, where they ask for its resource."""
    if resource != names.THEIR_MEMORY:
        return GpusForContainer({})
    groups, total = by_gpu(devices), {gpu.index: gpu.memory_gib for gpu in gpus}
    return GpusForContainer(
        {
            names.THEIR_INDEX: ",".join(map(str, groups)),
            names.THEIR_POD: str(pod_gib),
            names.THEIR_CONTAINER: str(len(devices)),
            names.THEIR_DEVICE: str(total[next(iter(groups))]),
        }
    )
