"""Experiments on one GPU, built in a test; and what became of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuyard.core.sharing import KernelSequence, SharedJob
from gpuyard.policies.controller import control
from gpuyard.policies.registry import LAUNCHINGS
from gpuyard.simulation.device.state import JobsDone
from gpuyard.simulation.device.time_sharing import simulated_sharing
from gpuyard.simulation.device.world import SimulatedGpu

MS = 1e-3


def job(name: str = "job", kernels: int = 10, kernel_ms: float = 1.0, **values: Any) -> SharedJob:
    """A job of equal kernels that costs its CPU nothing unless told."""
    sequence = values.pop("sequence", None) or KernelSequence.uniform(kernels, kernel_ms * MS)
    return SharedJob(name, sequence, **{"launch_s": 0.0, "sync_s": 0.0, "warm_up": 0} | values)


def run(
    jobs: Sequence[SharedJob], policy: str = "priority", *, sharing: str = "fifo", seconds: float = 0.1
) -> SimulatedGpu:
    """Let them share a GPU to the end."""
    launching = LAUNCHINGS.find(policy)
    gpu = SimulatedGpu(jobs, simulated_sharing(sharing), launching, seconds)
    control(gpu, launching.terms)
    return gpu


def times_ms(done: JobsDone, process: int) -> list[float]:
    """From arrival to finish of each job of a process."""
    own = done.process == process
    return [float(each) for each in (done.finished_s - done.arrived_s)[own] / MS]


def rows(done: JobsDone) -> list[dict[str, Any]]:
    """One mapping a job done."""
    return [dict(zip(JobsDone._fields, row, strict=True)) for row in zip(*(map(np.ndarray.tolist, done)), strict=True)]
