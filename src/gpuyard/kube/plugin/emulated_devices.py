"""Emulated GPUs for pods: which there are on a node, and what a container needs to find its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuyard import native
from gpuyard.client.shared_batch import SOCKET, TASK
from gpuyard.emulation.settings import Settings
from gpuyard.kube import names
from gpuyard.kube.device_ids import by_gpu
from gpuyard.kube.objects import YardGpu, whole_gib
from gpuyard.kube.task_records import TaskRecords
from gpuyard.profiles.gpus import parse_gpus

IN_POD = Path("/opt/gpuyard")
RECORDS, SOCKETS, TASK_SOCKET = "records", "sockets", "tasks.sock"
SHARED_BY_ALL = 0o1777


@dataclass(frozen=True)
class GpusForContainer:
    """What a container is given so that it finds its GPUs: variables, and mounts as (there, here, read-only)."""

    environment: dict[str, str]
    mounts: list[tuple[str, str, bool]] = field(default_factory=list)


@dataclass(frozen=True)
class EmulatedDevices:
    """The emulated GPUs of a node."""

    gpus: str
    """As written: 4xV100."""
    node: str
    libraries: Path
    """A folder of the node in which pods find libcuda, NVML and the gate."""
    shared_memory: Path
    """A folder of the node in which the processes of pods meet."""
    tasks: Path
    """A folder of the node: what is noted of containers for the node daemon, and its socket."""
    speed: float = 1.0

    @property
    def records(self) -> TaskRecords:
        """What is noted of containers."""
        return TaskRecords(self.tasks / RECORDS)

    def prepare(self) -> None:
        """Put the libraries where pods find them."""
        self.libraries.mkdir(parents=True, exist_ok=True)
        for file in native.folder().glob("*.so*"):  # and not what a build that was killed has left
            beside = self.libraries / f".{file.name}.{os.getpid()}"
            shutil.copy(file, beside)
            beside.replace(self.libraries / file.name)  # pods may have the old one open
        self.shared_memory.mkdir(parents=True, exist_ok=True)
        self.shared_memory.chmod(SHARED_BY_ALL)
        (self.tasks / SOCKETS).mkdir(parents=True, exist_ok=True)

    def present(self) -> tuple[YardGpu, ...]:
        """The GPUs that there are."""
        kinds = parse_gpus(self.gpus)
        return tuple(YardGpu(index, kind.key, whole_gib(kind.memory_bytes)) for index, kind in enumerate(kinds))

    def keep(self, held: Iterable[Sequence[str]]) -> None:
        """Forget what was noted of containers whose devices nobody holds any more."""
        self.records.keep(held)

    def for_container(self, resource: str, devices: Sequence[str], pod_gib: int) -> GpusForContainer:
        """What a container with these devices is given."""
        groups = by_gpu(devices)
        visible = ",".join(map(str, groups))
        limit = "" if resource == names.WHOLE_GPUS else f"{len(devices)}GiB"
        settings = Settings(self.gpus, node=self.node, speed=self.speed, memory_limit=limit).environment()
        environment = {
            **settings,
            "GPUYARD_SHM": str(IN_POD / "shm"),
            "CUDA_VISIBLE_DEVICES": visible,
            "LD_LIBRARY_PATH": str(IN_POD / "lib"),
            "NVIDIA_VISIBLE_DEVICES": "void",
        }
        mounts = [
            (str(IN_POD / "lib"), str(self.libraries), True),
            (str(IN_POD / "shm"), str(self.shared_memory), False),
        ]
        if resource != names.WHOLE_GPUS:  # who shares with nobody has nothing to be tuned for
            environment |= {TASK: self.records.add(devices), SOCKET: str(IN_POD / SOCKETS / TASK_SOCKET)}
            mounts.append((str(IN_POD / SOCKETS), str(self.tasks / SOCKETS), True))
        if resource == names.THEIR_MEMORY:
            total = {gpu.index: gpu.memory_gib for gpu in self.present()}
            environment |= {
                names.THEIR_INDEX: visible,
                names.THEIR_POD: str(pod_gib),
                names.THEIR_CONTAINER: str(len(devices)),
                names.THEIR_DEVICE: str(total[next(iter(groups))]),
            }
        return GpusForContainer(environment, mounts)
