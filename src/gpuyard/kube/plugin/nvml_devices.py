"""The machine's own GPUs for pods, by NVML: which there are and are well, and how a container finds its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from gpuyard.kube import names
from gpuyard.kube.device_ids import by_gpu
from gpuyard.kube.objects import YardGpu
from gpuyard.kube.plugin.container_gpus import IN_POD, GpusForContainer, TaskFolder, as_iadeep_says
from gpuyard.kube.plugin.gpu_numbers import as_yard_gpu, give_numbers
from gpuyard.kube.plugin.libraries import put_libraries
from gpuyard.kube.plugin.nvml_library import NvmlLibrary

GATE = "libgpuyard-gate.so"
FOR_ALL_GPUS = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
"""Devices that every program of CUDA opens."""
NOT_GATED = "-1"
"""Neither waits for others nor makes them wait: the gate is there for its limit of memory alone."""


class NvmlDevices:
    """The GPUs of a node."""

    def __init__(
        self,
        library: NvmlLibrary,
        tasks: Path,
        libraries: Path,
        *,
        devices: Path = Path("/dev"),
        driver: Path | None = None,
        limits: bool = True,
    ) -> None:
        """`devices` is where the node's devices can be seen; `driver` a folder of the node with libcuda.so.1.

        Without `driver`, NVIDIA's container runtime gives containers the driver. `limits`: the gate is loaded into
        programs, and refuses memory beyond what their container asked for.
        """
        self._library, self._tasks, self._libraries = library, TaskFolder(tasks), libraries
        self._devices, self._driver, self._limits = devices, driver, limits
        self._gpus = give_numbers(tasks, library.gpus())

    def prepare(self) -> None:
        """Put the gate where pods find it."""
        self._tasks.prepare()
        if self._limits:
            put_libraries(self._libraries, GATE)

    def present(self) -> tuple[YardGpu, ...]:
        """The GPUs that there are, and those that there were."""
        healthy = self._library.healthy([gpu.uuid for gpu in self._gpus])
        return tuple(as_yard_gpu(index, gpu, healthy[gpu.uuid]) for index, gpu in enumerate(self._gpus))

    def keep(self, held: Iterable[Sequence[str]]) -> None:
        """Forget what was noted of containers whose devices nobody holds any more."""
        self._tasks.records.keep(held)

    def for_container(self, resource: str, devices: Sequence[str], pod_gib: int) -> GpusForContainer:
        """What a container with these devices is given."""
        chosen = [self._gpus[index] for index in by_gpu(devices)]
        uuids = ",".join(gpu.uuid for gpu in chosen)
        own = GpusForContainer(
            {
                "NVIDIA_VISIBLE_DEVICES": uuids,
                "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
                "CUDA_VISIBLE_DEVICES": uuids,
            },
            device_nodes=self._device_nodes([gpu.minor for gpu in chosen]),
        )
        numbers = [as_yard_gpu(index, gpu) for index, gpu in enumerate(self._gpus)]
        theirs = as_iadeep_says(resource, devices, pod_gib, numbers)
        limit = self._limit(resource, len(devices))
        return own + self._driver_of_node() + limit + self._tasks.given(resource, devices) + theirs

    def _device_nodes(self, minors: Sequence[int]) -> list[str]:
        """By their names on the node; those that are not there cannot be given to anybody."""
        wanted = [*(f"nvidia{minor}" for minor in minors), *FOR_ALL_GPUS]
        return [f"/dev/{name}" for name in wanted if (self._devices / name).exists()]

    def _driver_of_node(self) -> GpusForContainer:
        if self._driver is None:
            return GpusForContainer({})
        there = str(IN_POD / "driver")
        return GpusForContainer({"LD_LIBRARY_PATH": there}, [(there, str(self._driver), True)])

    def _limit(self, resource: str, gib: int) -> GpusForContainer:
        """Nobody else is on a whole GPU. Each container is a group of its own, in its own shared memory."""
        if not self._limits or resource == names.WHOLE_GPUS:
            return GpusForContainer({})
        there = IN_POD / "lib"
        variables = {
            "LD_PRELOAD": str(there / GATE),
            "GPUYARD_GATE": "container",
            "GPUYARD_GATE_LEVEL": NOT_GATED,
            "GPUYARD_GATE_MEMORY": str(gib * 2**30),
        }
        return GpusForContainer(variables, [(str(there), str(self._libraries), True)])
