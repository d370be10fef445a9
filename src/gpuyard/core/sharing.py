"""What shares a GPU: processes that run the same job again and again, kernel by kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import Any

from gpuyard.core.arguments import check_name, check_number
from gpuyard.core.errors import InputError

MOST_KERNELS = 10_000_000
MOST_SHARERS = 62
"""Processes on one GPU: bits of a word."""


@dataclass(frozen=True)
class KernelSequence:
    """The kernels of one job, in the order in which they are launched."""

    durations_s: tuple[float, ...]
    """GPU time of each when it has the GPU to itself."""
    layer_ends: tuple[int, ...] = ()
    """How many kernels have been launched at the end of each layer of the model.

    Empty where layers are not known: then every kernel is one, the most that synchronising by layer can cost.
    """
    source: str = "given"
    """Where it comes from, in a few words."""

    def __post_init__(self) -> None:
        if not 0 < len(self.durations_s) <= MOST_KERNELS:
            raise InputError(f"must be 1 to {MOST_KERNELS:,}", field="kernels", value=len(self.durations_s))
        for duration_s in set(self.durations_s):
            check_number(duration_s, "kernel_s", least=1e-9, most=1e6)
        ends = (0, *self.layer_ends)
        if any(after <= before for before, after in pairwise(ends)) or ends[-1] > len(self.durations_s):
            raise InputError("must rise from 1 to at most the number of kernels", field="layer_ends")

    @classmethod
    def uniform(
        cls, kernels: int, kernel_s: float, *, layers: int | None = None, source: str = "given"
    ) -> KernelSequence:
        """So many kernels of one length; layers, if any, end after as equal numbers of kernels as can be."""
        check_number(kernels, "kernels", least=1, most=MOST_KERNELS, whole=True)
        check_number(layers or 1, "layers", least=1, most=kernels, whole=True)
        ends = tuple(kernels * (number + 1) // layers for number in range(layers)) if layers else ()
        return cls((kernel_s,) * int(kernels), ends, source)

    @property
    def ends_of_layers(self) -> Sequence[int]:
        """How many kernels have been launched at the end of each layer."""
        return self.layer_ends or range(1, len(self.durations_s) + 1)

    @property
    def total_s(self) -> float:
        """GPU time of a job."""
        return sum(self.durations_s)

    @property
    def mean_s(self) -> float:
        """Mean GPU time of a kernel."""
        return self.total_s / len(self.durations_s)


@dataclass(frozen=True)
class SharedJob:
    """One process: what it runs, when, and on which terms. Times are seconds."""

    name: str
    sequence: KernelSequence
    priority: int = 0
    """Higher goes first."""
    thinks_s: tuple[float, ...] = (0.0,)
    """A closed loop: so long after each job the next one comes; from the last it goes on with the first."""
    arrivals_s: tuple[float, ...] | None = None
    """Jobs come at these times instead; whoever comes while another is not done waits for it."""
    share: float = 1.0
    """Its part of the GPU, where parts are promised; its weight, where time is weighed."""
    demand: float = 1.0
    """The part of the GPU that its kernels fill."""
    slo_s: float | None = None
    """Within which each job is to be done."""
    gated: bool = True
    """Whether its launches go through the gate."""
    sync_every: int = 0
    """Its own cap: a synchronisation after so many launches; 0: none."""
    window: int = 0
    """Its own cap: a sliding window of groups of so many launches; 0: none."""
    layers: bool = False
    """Whether it synchronises after every layer of its model."""
    streams: int = 1
    """Streams over which its kernels go round."""
    launch_s: float = 3e-6
    """CPU time of a launch. A usual figure, not measured."""
    sync_s: float = 11.5e-6
    """What a synchronisation costs beside the wait, by Deft's fit."""
    warm_up: int = 1
    """Jobs at the beginning that figures leave out."""
    least_jobs: int = 1
    """Jobs of a closed loop that are run even if the time is over."""
    gpu: int = 0
    expected_kernel_s: float | None = None
    """What its profile says of the mean kernel, where that is not the truth."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InputError("must be text", field="name", value=self.name)
        check_name(self.name, "name")
        for field, limits in LIMITS.items():
            value = getattr(self, field)
            if value is not None:
                check_number(value, field, **limits)
        if not self.thinks_s:
            raise InputError("must have at least one time", field="thinks_s")
        for think_s in set(self.thinks_s):
            check_number(think_s, "thinks_s", least=0, most=1e6)
        times = self.arrivals_s or ()
        if not all(before <= after < inf for before, after in pairwise((0.0, *times))):
            raise InputError("must be times from 0 on, in order", field="arrivals_s")


LIMITS: dict[str, dict[str, Any]] = {
    "priority": {"least": -1e9, "most": 1e9, "whole": True},
    "share": {"least": 1e-6, "most": 1},
    "demand": {"least": 1e-6, "most": 1},
    "slo_s": {"least": 1e-9, "most": 1e6},
    "sync_every": {"least": 0, "most": 1e9, "whole": True},
    "window": {"least": 0, "most": 1e9, "whole": True},
    "streams": {"least": 1, "most": 1024, "whole": True},
    "launch_s": {"least": 0, "most": 1},
    "sync_s": {"least": 0, "most": 1},
    "warm_up": {"least": 0, "most": 1e9, "whole": True},
    "least_jobs": {"least": 0, "most": 1e5, "whole": True},
    "gpu": {"least": 0, "most": 1023, "whole": True},
    "expected_kernel_s": {"least": 1e-9, "most": 1e6},
}
"""Within which numbers of a job must be."""


def check_seconds(seconds: float) -> None:
    """Refuse what is no length of an experiment."""
    check_number(seconds, "seconds", least=1e-6, most=1e7)


@dataclass(frozen=True)
class SharingExperiment:
    """Processes that share GPUs for a while."""

    jobs: tuple[SharedJob, ...]
    seconds: float
    """For how long jobs come; what has begun is ended."""
    policy: str = "priority"
    """Who may launch."""
    sharing: str = "fifo"
    """How the device divides its time among what is queued."""
    notes: tuple[str, ...] = ()
    """What its reader has to say beside it."""

    def __post_init__(self) -> None:
        check_seconds(self.seconds)
        if not self.jobs:
            raise InputError("must have at least one entry", field="jobs")
        name, times = Counter(job.name for job in self.jobs).most_common(1)[0]
        if times > 1:
            raise InputError("is the name of two jobs", field="name", value=name)
        gpu, sharers = Counter(job.gpu for job in self.jobs).most_common(1)[0]
        if sharers > MOST_SHARERS:
            raise InputError(f"has more than {MOST_SHARERS} jobs", field="gpu", value=gpu)

    def alone(self) -> tuple[SharingExperiment, ...]:
        """The same for each job by itself, without a gate: what it would be if it shared nothing."""
        free = (replace(job, gated=False, sync_every=0, window=0, layers=False) for job in self.jobs)
        return tuple(replace(self, jobs=(job,), policy="none") for job in free)
