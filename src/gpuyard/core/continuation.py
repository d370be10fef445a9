"""What arrives after the last job of a workload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gpuyard.core.workload import Workload

COLUMNS = (
    *("job_id", "arrival_s", "gpus", "model", "iterations", "duration_s", "cpus", "memory_gb"),
    *("storage_mbps", "tenant", "priority", "gpu_type", "command"),
)
"""The columns of a workload."""

Rule = Callable[["Workload"], NDArray[np.bool_]]
"""Marks the jobs to keep, each by what it is and not by its company."""


class Continuation(Protocol):
    """Makes the jobs of a workload anew, and more of them; a plain value that can be pickled."""

    def jobs(self, count: int) -> Workload:
        """Return at least `count` jobs in order of arrival, the same ones first whatever the count."""


@dataclass(frozen=True)
class Selection:
    """A continuation of which only the jobs under a rule are kept."""

    whole: Continuation
    rule: Rule

    def jobs(self, count: int) -> Workload:
        """Draw until enough are kept."""
        drawn = count
        while True:
            everything = self.whole.jobs(drawn)
            kept = everything.take(np.flatnonzero(self.rule(everything)))
            if len(kept) >= count:
                return kept
            drawn *= 2


def join(first: Workload, whole: Workload) -> Workload:
    """Return `first` and what `whole` has beyond it; codes of text already in use keep their meaning."""
    tail = whole.take(np.arange(len(first), len(whole)))
    parts = {name: (getattr(first, name), getattr(tail, name)) for name in COLUMNS}
    joined: dict[str, Any] = {}
    for code, texts in (("model", "models"), ("tenant", "tenants"), ("gpu_type", "gpu_types"), ("command", "commands")):
        known, others = getattr(first, texts), getattr(tail, texts)
        joined[texts] = (*known, *(text for text in others if text not in known))
        recode = np.array([joined[texts].index(text) for text in others], dtype=np.int32)
        parts[code] = (parts[code][0], recode[parts[code][1]])
    joined |= {name: np.concatenate(both) for name, both in parts.items()}
    return replace(first, **joined)
