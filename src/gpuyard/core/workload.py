"""What arrives: jobs, one by one or, as simulators want them, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.arguments import check_kind
from gpuyard.core.continuation import COLUMNS, Continuation, Rule, Selection, join
from gpuyard.core.digests import CodedText, digest_columns
from gpuyard.core.errors import InputError
from gpuyard.core.units import LARGEST
from gpuyard.core.workload_rules import as_numbers, as_priorities, check_jobs

DEFAULT_TENANT = "default"
ANY_TYPE = ""
NO_COMMAND = ""

Origin = Literal["drawn", "philly", "recorded"]
"""Where arrivals come from: drawn here, Philly's log, or any other list of jobs."""


@dataclass(frozen=True, slots=True)
class Job:
    """One training job as a user would describe it.

    Its work is given as `iterations` of the model or as `duration_s`, a recorded run time: with the resources stated
    beside it, or else with the proportional share, on the GPU type that it was recorded on.
    A fraction of a GPU (0 < gpus < 1) is a slice of one GPU. Resources left out follow from the model's profile.
    """

    job_id: int | str
    arrival_s: float
    gpus: float
    model: str
    iterations: float = float("nan")
    duration_s: float = float("nan")
    cpus: float = float("nan")
    memory_gb: float = float("nan")
    storage_mbps: float = float("nan")
    tenant: str = DEFAULT_TENANT
    priority: int = 0
    gpu_types: str = ANY_TYPE
    """Types this job can use, joined by '|'; empty means any."""
    command: str = NO_COMMAND
    """What its processes run, as words of a shell without one; empty: the trainer of its model."""

    @property
    def endless(self) -> bool:
        """Whether nobody has said how much work it is."""
        return isnan(self.iterations) and isnan(self.duration_s)

    def counted(self) -> Job:
        """As policies know it: where nobody knows its work, it is the longest of all."""
        return replace(self, iterations=LARGEST) if self.endless else self


@dataclass(frozen=True)
class Workload:
    """Jobs in order of arrival, as columns of equal length.

    Text columns are coded: `model[i]` is an index into `models`, and so on, so that a million jobs stay small.
    """

    job_id: NDArray[Any]
    arrival_s: NDArray[np.float64]
    gpus: NDArray[np.float64]
    model: NDArray[np.int32]
    models: tuple[str, ...]
    iterations: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    cpus: NDArray[np.float64]
    memory_gb: NDArray[np.float64]
    storage_mbps: NDArray[np.float64]
    tenant: NDArray[np.int32]
    tenants: tuple[str, ...]
    priority: NDArray[np.int32]
    gpu_type: NDArray[np.int32]
    gpu_types: tuple[str, ...]
    command: NDArray[np.int32]
    commands: tuple[str, ...]
    source: str = "memory"
    notes: tuple[str, ...] = field(default=())
    origin: Origin = "recorded"
    continuation: Continuation | None = field(default=None, repr=False)
    """What arrives after these jobs; none: nothing does. It travels with the workload to other processes."""

    @classmethod
    def from_jobs(cls, jobs: Iterable[Job], *, source: str = "memory", notes: Sequence[str] = ()) -> Workload:
        """Build a workload from single jobs; row numbers in errors count from 1."""
        check_kind(jobs, "jobs", "jobs, one after another", Iterable)
        rows = list(jobs)
        for job in rows:
            check_kind(job, "jobs", "jobs of class Job", Job)
            check_kind(job.job_id, "job_id", "a whole number or text", int, str, np.integer)
            for name in ("model", "tenant", "gpu_types", "command"):
                check_kind(getattr(job, name), f"{name} of job {job.job_id}", "text", str)
        columns: dict[str, Sequence[Any]] = {
            name: [getattr(job, name) for job in rows] for name in Job.__dataclass_fields__
        }
        return cls.from_columns(columns, source=source, notes=notes)

    @classmethod
    def from_columns(
        cls,
        columns: dict[str, Any],
        *,
        source: str = "memory",
        notes: Sequence[str] = (),
        rows: NDArray[np.int64] | None = None,
    ) -> Workload:
        """Build from columns named as the fields of Job; what is left out gets its default.

        `rows` gives each job's row in the source file, for error messages; 1, 2, … otherwise.
        """
        ids = _identifiers(columns["job_id"])
        count = len(ids)
        number_of = np.arange(1, count + 1) if rows is None else rows

        def numbers(name: str, default: float = float("nan")) -> NDArray[np.float64]:
            return as_numbers(columns.get(name, np.full(count, default)), name, source, number_of)

        def coded(name: str, default: str) -> tuple[NDArray[np.int32], tuple[str, ...]]:
            if name not in columns:
                return np.zeros(count, dtype=np.int32), (default,)
            texts = [str(text) for text in columns[name]]
            names = tuple(sorted(set(texts)))
            index = {text: code for code, text in enumerate(names)}
            return np.fromiter((index[text] for text in texts), dtype=np.int32, count=count), names

        model, models = coded("model", "")
        tenant, tenants = coded("tenant", DEFAULT_TENANT)
        gpu_type, gpu_types = coded("gpu_types", ANY_TYPE)
        command, commands = coded("command", NO_COMMAND)
        workload = cls(
            job_id=ids,
            arrival_s=numbers("arrival_s"),
            gpus=numbers("gpus"),
            model=model,
            models=models,
            iterations=numbers("iterations"),
            duration_s=numbers("duration_s"),
            cpus=numbers("cpus"),
            memory_gb=numbers("memory_gb"),
            storage_mbps=numbers("storage_mbps"),
            tenant=tenant,
            tenants=tenants,
            priority=as_priorities(numbers("priority", 0.0), source, number_of),
            gpu_type=gpu_type,
            gpu_types=gpu_types,
            command=command,
            commands=commands,
            source=source,
            notes=tuple(notes),
        )
        check_jobs(workload, number_of)
        return workload.take(np.argsort(workload.arrival_s, kind="stable"))

    def __len__(self) -> int:
        return len(self.job_id)

    def take(self, index: NDArray[Any]) -> Workload:
        """Return the jobs at these positions, in this order."""
        prefix = self.endless and np.array_equal(index, np.arange(len(index)))
        return replace(
            self,
            continuation=self.continuation if prefix else None,
            **{name: getattr(self, name)[index] for name in COLUMNS},
        )

    @property
    def unmeasured(self) -> NDArray[np.bool_]:
        """Which jobs nobody has said of how much work they are."""
        return np.isnan(self.iterations) & np.isnan(self.duration_s)

    @property
    def commanded(self) -> NDArray[np.bool_]:
        """Which jobs have a command of their own."""
        return np.array([text != NO_COMMAND for text in self.commands], dtype=bool)[self.command]

    @property
    def endless(self) -> bool:
        """Whether more jobs arrive after these, as many as anyone asks for."""
        return self.continuation is not None

    def extended(self, count: int) -> Workload:
        """Return the same workload with at least `count` jobs, of which the first are these, unchanged."""
        if count <= len(self):
            return self
        if self.continuation is None:
            raise ValueError(f"the workload from {self.source} ends after {len(self)} jobs")
        return join(self, self.continuation.jobs(count))

    def select(self, rule: Rule, why: str) -> Workload:
        """Return the jobs that a rule keeps, of these and of those still to come; notes say how many were not."""
        kept = rule(self)
        dropped = len(self) - int(kept.sum())
        if dropped == len(self):
            raise InputError(f"no job is left: {why}", file=self.source)
        notes = (*self.notes, f"{dropped} of {len(self)} jobs left out: {why}") if dropped else self.notes
        continuation = None if self.continuation is None else Selection(self.continuation, rule)
        return replace(self.take(np.flatnonzero(kept)), notes=notes, continuation=continuation)

    def job(self, index: int) -> Job:
        """Return one job as a value."""
        identifier = self.job_id[index]
        return Job(
            job_id=identifier.item() if hasattr(identifier, "item") else identifier,
            arrival_s=float(self.arrival_s[index]),
            gpus=float(self.gpus[index]),
            model=self.models[self.model[index]],
            iterations=float(self.iterations[index]),
            duration_s=float(self.duration_s[index]),
            cpus=float(self.cpus[index]),
            memory_gb=float(self.memory_gb[index]),
            storage_mbps=float(self.storage_mbps[index]),
            tenant=self.tenants[self.tenant[index]],
            priority=int(self.priority[index]),
            gpu_types=self.gpu_types[self.gpu_type[index]],
            command=self.commands[self.command[index]],
        )

    def at_once(self) -> Workload:
        """Return the same jobs, all arriving at time 0."""
        return replace(self, arrival_s=np.zeros(len(self)), continuation=None)

    def digest(self) -> str:
        """Return a fingerprint of what the jobs are, in every column, wherever they were read from."""
        return digest_columns(
            {
                name: self._column(name)
                for name in vars(self)
                if isinstance(getattr(self, name), np.ndarray) and (name != "command" or self.commands != (NO_COMMAND,))
            }
        )

    def _column(self, name: str) -> NDArray[Any] | CodedText:
        values: NDArray[Any] = getattr(self, name)
        names = getattr(self, f"{name}s", None)  # `model` has its texts in `models`, and so on
        return values if names is None else CodedText(values, names)

    @property
    def jobs_per_hour(self) -> float | None:
        """Mean arrival rate over the span of arrivals; None when all arrive within a second."""
        span = float(self.arrival_s[-1] - self.arrival_s[0]) if len(self) > 1 else 0.0
        return (len(self) - 1) * 3600.0 / span if span > 1.0 else None


def _identifiers(values: Any) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    texts = array.astype(np.str_)
    if len(texts) and np.all(np.char.isdecimal(texts) & (np.char.str_len(texts) < 19)):
        numbers = texts.astype(np.int64)
        if np.array_equal(numbers.astype(np.str_), texts):
            return numbers
    return texts
