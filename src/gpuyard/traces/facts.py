"""What a workload holds, in a few figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.errors import InputError, nearest
from gpuyard.core.workload import Workload
from gpuyard.profiles import Zoo, load_zoo


def iteration_times(
    workload: Workload, iteration_s: Mapping[str, float] | None = None, *, zoo: Zoo | None = None
) -> NDArray[np.float64]:
    """Return each job's seconds per iteration, from this table or from the zoo at the reference share."""
    if iteration_s is None:
        zoo = zoo or load_zoo()
        iteration_s = {name: zoo.profile(name).iteration_s for name in workload.models}
    for name in workload.models:
        if name not in iteration_s:
            raise InputError("has no iteration time", field="model", value=name, hint=nearest(name, iteration_s))
    return np.array([iteration_s[name] for name in workload.models])[workload.model]


def describe(workload: Workload, zoo: Zoo | None = None) -> dict[str, Any]:
    """Return figures about a workload; where only iterations are known, durations are those at the reference share.

    Figures of durations leave out jobs of which nobody knows how long they are; a note says how many.
    """
    zoo = zoo or load_zoo()
    seconds = workload.duration_s
    if np.isnan(seconds).any():
        seconds = np.where(np.isnan(seconds), workload.iterations * iteration_times(workload, zoo=zoo), seconds)
    known = ~workload.unmeasured
    hours, unknown = seconds[known] / 3600, len(workload) - int(known.sum())
    notes = [f"{unknown} of {len(workload)} jobs do not say how long they are, and count for no duration"]
    sizes, counts = np.unique(workload.gpus, return_counts=True)
    return {
        "source": workload.source,
        "jobs": len(workload),
        "span_h": float(workload.arrival_s[-1] - workload.arrival_s[0]) / 3600,
        "jobs_per_hour": workload.jobs_per_hour,
        "gpus": {f"{size:g}": int(count) for size, count in zip(sizes, counts, strict=True)},
        "duration_median_h": float(np.median(hours)) if len(hours) else None,
        "duration_mean_h": float(np.mean(hours)) if len(hours) else None,
        "duration_p99_h": float(np.percentile(hours, 99)) if len(hours) else None,
        "gpu_hours": float(np.sum(hours * workload.gpus[known])),
        "models": _counts(workload.model, _model_keys(workload, zoo)),
        "tenants": _counts(workload.tenant, workload.tenants),
        "gpu_types": _counts(workload.gpu_type, tuple(name or "any" for name in workload.gpu_types)),
        "notes": [*workload.notes, *(notes if unknown else ())],
    }


def _model_keys(workload: Workload, zoo: Zoo) -> list[str]:
    """Name each of the workload's models as gpuyard does, whichever of its names the workload says."""
    return [zoo.profile(name).name if zoo.knows(name) else name for name in workload.models]


def _counts(codes: NDArray[np.int32], names: Sequence[str]) -> dict[str, int]:
    """Count the jobs of each name, most first; several codes may have the same name."""
    counts: Counter[str] = Counter()
    for name, count in zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True):
        counts[name] += count
    return {name: count for name, count in counts.most_common() if count}
