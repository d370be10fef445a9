"""Experiments of sharing on emulated GPUs: the emulated driver, told how long each kernel takes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from gpuyard.core.sharing import SharedJob, SharingExperiment
from gpuyard.emulation.node.view import Watcher, live_names
from gpuyard.emulation.settings import Settings, emulated_sharing
from gpuyard.native import find
from gpuyard.results import Run
from gpuyard.sharing.experiment import run_in_processes
from gpuyard.sharing.ground import GpuTimes
from gpuyard.sharing.kernels import KernelCode, timed_code

KIND = "V100"
"""Of the emulated GPUs: an experiment says itself how long its kernels take."""


@dataclass(frozen=True)
class EmulatedGround:
    """Emulated GPUs, as many as an experiment names."""

    speed: float = 1.0
    world: str = "emulated"

    def gpus(self, experiment: SharingExperiment) -> str:
        """Say how many."""
        count = len({job.gpu for job in experiment.jobs})
        return f"{count} GPU{'s' if count > 1 else ''}, {experiment.sharing}"

    def sharing(self, experiment: SharingExperiment) -> str:
        """As the experiment has it."""
        return experiment.sharing

    def code(self, durations_s: Sequence[float], gpu: int) -> KernelCode:  # noqa: ARG002 - all are alike
        """Kernels that the driver times by their names."""
        return timed_code(durations_s)

    def environment(
        self, experiment: SharingExperiment, job: SharedJob, durations_s: Sequence[float], run: str, folder: Path
    ) -> dict[str, str]:
        """Name the GPUs, and how long kernels take on them."""
        names, times = timed_code(durations_s).functions, folder / f"{uuid4().hex}.txt"
        rows = (f"{name}={each * 1e6!r}\n" for name, each in zip(names, durations_s, strict=True))
        times.write_text("".join(rows), encoding="utf-8")
        gpus = max(each.gpu for each in experiment.jobs) + 1
        settings = Settings(f"{gpus}x{KIND}", node=run, speed=self.speed, sharing=experiment.sharing, share=job.share)
        return {
            **os.environ,
            **settings.environment(),
            "GPUYARD_KERNEL_TIMES": str(times),
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(gpus))),
            "LD_LIBRARY_PATH": str(find("libcuda.so.1").parent),
        }

    def gpu_times(self, run: str) -> GpuTimes:
        """Ask the emulated machine, which knows."""
        return node_times(run)

    def clean_up(self) -> None:
        """Look at the machine's nodes: whichever nobody uses is gone then."""
        live_names()


def node_times(node: str) -> GpuTimes:
    """Say for each process how many seconds of work a GPU of this emulated machine has done for it."""
    watcher: Watcher | None = None

    def times(uuid: str) -> Mapping[int, float]:
        nonlocal watcher
        watcher = watcher or Watcher(node)  # it is there as soon as there is a client
        return {each.pid: each.busy_s for each in watcher.gpu(watcher.about.uuids.index(uuid)).clients}

    return times


def emulate_sharing(experiment: SharingExperiment, speed: float = 1.0, inputs: Mapping[str, Any] | None = None) -> Run:
    """Let all jobs share emulated GPUs in real processes; the run is not yet saved."""
    emulated_sharing(experiment.sharing)  # before any process is started
    return run_in_processes(experiment, EmulatedGround(speed), inputs)
