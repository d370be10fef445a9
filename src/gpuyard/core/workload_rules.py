"""What must hold for the jobs of a workload, whoever made them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.errors import InputError
from gpuyard.core.units import LARGEST

if TYPE_CHECKING:
    from gpuyard.core.workload import Workload

LEAST_SLICE = 0.001
"""GPUs are divided into thousandths."""


PRIORITIES = np.iinfo(np.int32)


def as_numbers(values: Any, field: str, source: object, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return a column of numbers; InputError names the first value that is none."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.empty(0)
    if numbers.shape == rows.shape:
        return numbers
    row = next(number for number, value in enumerate(values) if not _is_number(value))
    raise InputError("must be a number", file=source, row=int(rows[row]), field=field, value=values[row])


def _is_number(value: Any) -> bool:
    try:
        np.float64(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return np.ndim(value) == 0


def as_priorities(values: NDArray[np.float64], source: object, rows: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return a column of priorities; InputError names the first that is none."""
    bad = ~((values >= PRIORITIES.min) & (values <= PRIORITIES.max)) | (values != np.floor(values))
    if bad.any():
        first = int(np.argmax(bad))
        rule = f"must be a whole number from {PRIORITIES.min} to {PRIORITIES.max}"
        raise InputError(rule, file=source, row=int(rows[first]), field="priority", value=values[first].item())
    return values.astype(np.int32)


def check_jobs(jobs: Workload, rows: NDArray[np.int64]) -> None:
    """Raise InputError for the first job that breaks a rule, naming its row in the source."""

    def refuse(bad: NDArray[np.bool_], field: str, values: NDArray[Any], rule: str, hint: str | None = None) -> None:
        if bad.any():
            first = int(np.argmax(bad))
            raise InputError(
                rule, file=jobs.source, row=int(rows[first]), field=field, value=values[first].item(), hint=hint
            )

    for name in ("arrival_s", "gpus", "duration_s", "iterations", "cpus", "memory_gb", "storage_mbps"):
        numbers: NDArray[np.float64] = getattr(jobs, name)
        refuse(np.isfinite(numbers) & (numbers > LARGEST), name, numbers, f"is beyond {LARGEST:g}")
    whole = jobs.gpus == np.floor(jobs.gpus)
    refuse(~np.isfinite(jobs.arrival_s), "arrival_s", jobs.arrival_s, "must be a finite number of seconds")
    refuse(jobs.arrival_s < 0, "arrival_s", jobs.arrival_s, "must not be negative")
    refuse(
        ~((jobs.gpus >= LEAST_SLICE) & np.isfinite(jobs.gpus) & (whole | (jobs.gpus < 1))),
        "gpus",
        jobs.gpus,
        f"must be a whole number of GPUs, or a fraction of one GPU from {LEAST_SLICE:g} to below 1",
    )
    for name in ("duration_s", "iterations", "cpus", "memory_gb", "storage_mbps"):
        values: NDArray[np.float64] = getattr(jobs, name)
        refuse(values < 0, name, values, "must not be negative")
        refuse(np.isinf(values), name, values, "must be a finite number")
    lasts, counted = ~np.isnan(jobs.duration_s), ~np.isnan(jobs.iterations)
    unmeasured = jobs.unmeasured & ~jobs.commanded  # a command ends by itself, a model does not
    rule = "a job needs iterations or duration_s"
    refuse(unmeasured, "iterations", jobs.iterations, rule, "Only one with a command may do without")
    refuse(
        lasts & counted, "duration_s", jobs.duration_s, "is the job's work, and so is iterations", "Keep one of the two"
    )
    _, first, counts = np.unique(jobs.job_id, return_index=True, return_counts=True)
    if counts.max(initial=1) > 1:
        twice = jobs.job_id[first[int(np.argmax(counts))]]
        again = int(np.flatnonzero(jobs.job_id == twice)[1])
        raise InputError(
            "stands twice", file=jobs.source, row=int(rows[again]), field="job_id", value=twice.item(),
            hint="Give each job an id of its own",
        )  # fmt: skip
