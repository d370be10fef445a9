"""Emulated GPUs for pods: which there are on a node, and what a container needs to find its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuyard import native
from gpuyard.emulation.settings import Settings
from gpuyard.kube import names
from gpuyard.kube.device_ids import by_gpu
from gpuyard.kube.objects import YardGpu
from gpuyard.profiles.gpus import parse_gpus

IN_POD = Path("/opt/gpuyard")
SHARED_BY_ALL = 0o1777
GIB = 2**30


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
    speed: float = 1.0

    def prepare(self) -> None:
        """Put the libraries where pods find them."""
        self.libraries.mkdir(parents=True, exist_ok=True)
        for file in native.folder().iterdir():
            beside = self.libraries / f".{file.name}.{os.getpid()}"
            shutil.copy(file, beside)
            beside.replace(self.libraries / file.name)  # pods may have the old one open
        self.shared_memory.mkdir(parents=True, exist_ok=True)
        self.shared_memory.chmod(SHARED_BY_ALL)

    def present(self) -> tuple[YardGpu, ...]:
        """The GPUs that there are."""
        kinds = parse_gpus(self.gpus)
        return tuple(YardGpu(index, kind.key, kind.memory_bytes // GIB) for index, kind in enumerate(kinds))

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
        if resource == names.THEIR_MEMORY:
            total = {gpu.index: gpu.memory_gib for gpu in self.present()}
            environment |= {
                names.THEIR_INDEX: visible,
                names.THEIR_POD: str(pod_gib),
                names.THEIR_CONTAINER: str(len(devices)),
                names.THEIR_DEVICE: str(total[next(iter(groups))]),
            }
        mounts = [
            (str(IN_POD / "lib"), str(self.libraries), True),
            (str(IN_POD / "shm"), str(self.shared_memory), False),
        ]
        return GpusForContainer(environment, mounts)
