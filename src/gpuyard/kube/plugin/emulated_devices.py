"""Emulated GPUs for pods: which there are on a node, and what a container needs to find its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuyard.emulation.settings import Settings
from gpuyard.kube import names
from gpuyard.kube.device_ids import by_gpu
from gpuyard.kube.objects import YardGpu, whole_gib
from gpuyard.kube.plugin.container_gpus import IN_POD, GpusForContainer, TaskFolder, as_iadeep_says
from gpuyard.kube.plugin.libraries import put_libraries
from gpuyard.kube.task_records import TaskRecords
from gpuyard.profiles.gpus import parse_gpus

SHARED_BY_ALL = 0o1777


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
        return TaskFolder(self.tasks).records

    def prepare(self) -> None:
        """Put the libraries where pods find them."""
        put_libraries(self.libraries, "*.so*")
        self.shared_memory.mkdir(parents=True, exist_ok=True)
        self.shared_memory.chmod(SHARED_BY_ALL)
        TaskFolder(self.tasks).prepare()

    def present(self) -> tuple[YardGpu, ...]:
        """The GPUs that there are."""
        kinds = parse_gpus(self.gpus)
        return tuple(YardGpu(index, kind.key, whole_gib(kind.memory_bytes)) for index, kind in enumerate(kinds))

    def keep(self, held: Iterable[Sequence[str]]) -> None:
        """Forget what was noted of containers whose devices nobody holds any more."""
        self.records.keep(held)

    def for_container(self, resource: str, devices: Sequence[str], pod_gib: int) -> GpusForContainer:
        """What a container with these devices is given."""
        limit = "" if resource == names.WHOLE_GPUS else f"{len(devices)}GiB"
        settings = Settings(self.gpus, node=self.node, speed=self.speed, memory_limit=limit).environment()
        own = GpusForContainer(
            {
                **settings,
                "GPUYARD_SHM": str(IN_POD / "shm"),
                "CUDA_VISIBLE_DEVICES": ",".join(map(str, by_gpu(devices))),
                "LD_LIBRARY_PATH": str(IN_POD / "lib"),
                "NVIDIA_VISIBLE_DEVICES": "void",
            },
            [
                (str(IN_POD / "lib"), str(self.libraries), True),
                (str(IN_POD / "shm"), str(self.shared_memory), False),
            ],
        )
        theirs = as_iadeep_says(resource, devices, pod_gib, self.present())
        return own + TaskFolder(self.tasks).given(resource, devices) + theirs
