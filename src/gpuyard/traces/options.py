"""What a reader may be told, and what a reader is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from gpuyard.core.workload import Workload
from gpuyard.profiles import Zoo, load_zoo
from gpuyard.traces.draws import Durations
from gpuyard.traces.models import DEFAULT_SPLIT, Assignment, Split
from gpuyard.traces.source import Head, Source

_POWERS_OF_TWO = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class PhillyOptions:
    """How jobs are made of Philly's log. The defaults take the log at its word; `published` does as Synergy did."""

    attempts: Literal["sum", "each"] = "sum"
    """One job a job, its attempts' run times summed, or one job an attempt."""
    multi_gpu: bool = True
    """Keep GPU counts; otherwise every job has one GPU."""
    durations: Literal["trace"] | Durations = "trace"
    """Run times of the log, or drawn in their place (only the number of jobs then comes from the log)."""
    arrivals: Literal["trace", "exponential", "static"] = "trace"
    needs: Literal["any", "last"] = "any"
    """Which attempt must be usable for the job to count."""
    sizes: tuple[int, ...] | None = None
    """GPU counts to accept; None accepts all."""
    other_sizes: Literal["skip", "one"] = "skip"
    """What becomes of an attempt of another size: left out, or taken for one GPU."""
    max_gpus: int | None = None
    duration_s: tuple[float, float] | None = None
    """Keep jobs that ran longer than the first and shorter than the second."""
    window_h: tuple[float, float] | None = None
    """Keep jobs submitted within these hours of the log."""
    max_jobs: int | None = None
    sort: bool = True
    """Order by arrival; otherwise the order of the log."""
    shift: Literal["always", "full"] = "always"
    """Start the clock at the first job kept: always, or only when max_jobs was reached."""

    @classmethod
    def published(
        cls, *, multi_gpu: bool = False, small: bool = False, no_exp: bool = False, trace_arrivals: bool = False
    ) -> PhillyOptions:
        """Return Synergy's own reading of the log under its flags, faults included (docs/formats.md lists them)."""
        return cls(
            multi_gpu=multi_gpu,
            durations="trace" if no_exp else "small" if small else "exponential",
            arrivals="trace" if no_exp and trace_arrivals else "exponential",
            needs="last",
            sizes=_POWERS_OF_TWO if multi_gpu else None,
            other_sizes="skip" if no_exp else "one",
            max_gpus=16 if multi_gpu else None,
            duration_s=(60 * 10**1.5, 60 * 10**4.0),
            window_h=(2400.0, 3000.0) if no_exp else None,
            max_jobs=8000 if no_exp else None,
            sort=no_exp,
            shift="full",
        )


@dataclass(frozen=True)
class ReadOptions:
    """Choices for what a trace leaves open; a reader uses those that apply to it."""

    seed: int = 42
    load: float = 9.0
    """Jobs an hour where a trace has no arrivals."""
    split: Split = DEFAULT_SPLIT
    assignment: Assignment = "overall"
    """How models are assigned where a trace names none."""
    philly: PhillyOptions = field(default_factory=PhillyOptions)
    zoo: Zoo = field(default_factory=load_zoo)
    """Profiles whose models a trace may name."""


@dataclass(frozen=True)
class Reader:
    """One format: how it is told from others, and how it is read."""

    name: str
    about: str
    matches: Callable[[Head], bool]
    read: Callable[[Source, ReadOptions], Workload]


def columns_are(*names: str) -> Callable[[Head], bool]:
    """Match files whose first line names all these columns."""
    return lambda head: set(names) <= head.columns
