"""Experiments of sharing on the GPUs of this machine: whichever driver it has, and kernels that keep the GPU busy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.core.sharing import SharedJob, SharingExperiment
from gpuyard.results import Run
from gpuyard.sharing.experiment import run_in_processes
from gpuyard.sharing.kernels import KernelCode, spinning_code

DRIVER_S = "the driver's own"
"""How a GPU divides its time among processes: not for an experiment to choose."""


@dataclass(frozen=True)
class MachineGround:
    """The GPUs that an experiment names, and what a kernel takes on each beyond what it is asked for."""

    names: Mapping[int, str]
    overhead_ns: Mapping[int, int]
    world: str = "gpu"
    speed: float = 1.0

    def gpus(self, experiment: SharingExperiment) -> str:  # noqa: ARG002 - they are there whatever it says
        """Name them."""
        return ", ".join(self.names.values())

    def sharing(self, experiment: SharingExperiment) -> str:  # noqa: ARG002
        """Leave it to the driver."""
        return DRIVER_S

    def code(self, durations_s: Sequence[float], gpu: int) -> KernelCode:
        """Kernels that take what is left of their time when the overhead is taken off."""
        return spinning_code(durations_s, self.overhead_ns[gpu])

    def environment(
        self, experiment: SharingExperiment, job: SharedJob, durations_s: Sequence[float], run: str, folder: Path
    ) -> dict[str, str]:
        """Leave everything as it is."""
        del experiment, job, durations_s, run, folder
        return dict(os.environ)

    def gpu_times(self, run: str) -> None:
        """A GPU does not say how long it has worked for whom."""

    def clean_up(self) -> None:
        """A driver does that."""


def look_at_gpus(gpus: Sequence[int] = (), environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """What the driver says of all GPUs, and what was measured on these; InputError where there is no driver or GPU."""
    command = [sys.executable, "-m", "gpuyard.sharing.gpu_process", *map(str, gpus)]
    told = subprocess.run(  # noqa: S603 - our own program
        command, stdout=subprocess.PIPE, text=True, env=dict(environment), check=False
    )
    found: dict[str, Any] = json.loads(told.stdout) if told.returncode == 0 else {"missing": "looking for one failed"}
    if "missing" in found:
        hint = "Use --world emulated, or put an emulated one on LD_LIBRARY_PATH (docs/cuda.md)"
        raise InputError(f"needs a CUDA driver and a GPU: {found['missing']}", field="world", value="gpu", hint=hint)
    return found


def find_ground(gpus: Sequence[int]) -> MachineGround:
    """Look at these GPUs of the machine; InputError where they are not."""
    found = look_at_gpus(gpus)
    names = found["names"]
    for gpu in gpus:
        if gpu >= len(names):
            raise InputError(f"is not one of this machine's {len(names)} GPUs", field="gpu", value=gpu)
    return MachineGround({gpu: names[gpu] for gpu in gpus}, dict(zip(gpus, found["overhead_ns"], strict=True)))


def share_machine(experiment: SharingExperiment, inputs: Mapping[str, Any] | None = None) -> Run:
    """Let all jobs share the machine's own GPUs; the run is not yet saved."""
    return run_in_processes(experiment, find_ground(sorted({job.gpu for job in experiment.jobs})), inputs)
