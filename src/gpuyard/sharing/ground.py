"""What an experiment with real processes stands on: emulated GPUs, or the machine's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from gpuyard.core.sharing import SharedJob, SharingExperiment
from gpuyard.sharing.kernels import KernelCode

GpuTimes = Callable[[str], Mapping[int, float]]
"""Of a GPU, by the name that all programs know it by: the seconds of work that it has done for each process."""


class ProcessGround(Protocol):
    """What processes find on which they run: GPUs, and kernels that take as long there as they are to take."""

    @property
    def world(self) -> str:
        """Its name among the worlds."""

    @property
    def speed(self) -> float:
        """The GPUs' seconds for one of the host's."""

    def gpus(self, experiment: SharingExperiment) -> str:
        """Say in a few words what the GPUs are, and how they divide their time."""

    def sharing(self, experiment: SharingExperiment) -> str:
        """Say how they divide their time."""

    def code(self, durations_s: Sequence[float], gpu: int) -> KernelCode:
        """Return kernels of these lengths for a GPU."""

    def environment(
        self, experiment: SharingExperiment, job: SharedJob, durations_s: Sequence[float], run: str, folder: Path
    ) -> dict[str, str]:
        """Return the environment of a job's process; `run` names this run, and files may go into the folder."""

    def gpu_times(self, run: str) -> GpuTimes | None:
        """Return what knows how long a GPU has worked for whom; None if all that is known is what the gate sees."""

    def clean_up(self) -> None:
        """Take away what processes that were killed have left; called when all have ended."""
