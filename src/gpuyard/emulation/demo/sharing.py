"""Several jobs on one GPU: what each of them gets as others arrive, and what two gain that need different things.

The first was studied by Salus (MLSys'20), the second by Muri (SIGCOMM'22); GPEmu repeated both without GPUs (PVLDB 18).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import harmonic_mean
from types import TracebackType

from gpuyard.emulation.demo.running import Program, own_node

ENDLESS = ("--steps", 10**9)
SETTLING = 3
"""Steps after an arrival that do not count: the first of a job, and those that were under way."""

BATCH = 48
"""Three ResNet-50 of this batch size fit on a P100. Of 128, as in the study, one does: each takes 11 GB of its 16."""

CPU_BOUND = ("--model", "resnet18", "--batch", 64, "--prepare-ms", 1e3 * 64 / (2 * 174))
"""Its batches are decoded by two cores, 174 images/s each."""
GPU_BOUND = ("--model", "resnet50", "--batch", 64)


class JobsOnOneGpu:
    """One GPU and the jobs on it; leaving the `with` block ends them."""

    def __init__(self, gpu: str, *, steps: int, speed: float = 1.0) -> None:
        self._gpu, self._steps, self._speed = gpu, steps, speed
        self._node = own_node("sharing")
        self._jobs: list[Program] = []

    def __enter__(self) -> JobsOnOneGpu:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._jobs:
            self.end(self._jobs[0])

    def start(self, *options: object) -> Program:
        """Let one more job arrive; returns when it trains."""
        job = Program("train_steps", *options, *ENDLESS, gpus=self._gpu, node=self._node, speed=self._speed)
        self._jobs.append(job)
        job.wait_for_lines(1)
        return job

    def end(self, job: Program) -> None:
        """Let a job go."""
        self._jobs.remove(job)
        job.stop()

    def rates(self) -> list[float]:
        """Return the images per second of each job from now on."""
        begins = [len(job.lines) + SETTLING for job in self._jobs]
        for job, begin in zip(self._jobs, begins, strict=True):
            job.wait_for_lines(begin + self._steps)
        spans = [job.lines[begin : begin + self._steps] for job, begin in zip(self._jobs, begins, strict=True)]
        return [harmonic_mean(map(float, span)) for span in spans]


def rates_as_jobs_arrive(jobs: int = 3, *, gpu: str = "P100", steps: int = 10) -> Iterator[list[float]]:
    """Start equal jobs one after the other; yield images per second of each, after every arrival."""
    # Only the GPU works, so its time may pass faster; four times leaves the host time enough to keep it busy.
    with JobsOnOneGpu(gpu, steps=steps, speed=4.0) as shared:
        for _ in range(jobs):
            shared.start("--model", "resnet50", "--batch", BATCH)
            yield shared.rates()


@dataclass(frozen=True)
class Pair:
    """Images per second of two jobs, each alone and side by side on one GPU."""

    alone: tuple[float, float]
    together: tuple[float, float]

    @property
    def makespan_ratio(self) -> float:
        """How much longer two jobs of equal length take one after the other than side by side."""
        slow, fast = sorted(shared / free for shared, free in zip(self.together, self.alone, strict=True))
        first_end = 1.0 / fast
        left = 1.0 - slow * first_end  # of the other job, which then has the GPU to itself
        return 2.0 / (first_end + left)


def pair(*, gpu: str = "V100", steps: int = 10) -> Pair:
    """Run a job that waits for its CPUs and one that waits for its GPU, apart and together."""
    with JobsOnOneGpu(gpu, steps=steps) as shared:
        cpu_bound = shared.start(*CPU_BOUND)
        (first,) = shared.rates()
        shared.start(*GPU_BOUND)
        one, other = shared.rates()
        shared.end(cpu_bound)
        (second,) = shared.rates()
    return Pair(alone=(first, second), together=(one, other))
