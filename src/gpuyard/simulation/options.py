"""How a cluster is simulated: everything beside the cluster, the workload and the policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuyard.core.errors import InputError

STARVATION_S = 1000 * 3600.0
"""A job that has waited this long goes first (Synergy's rule)."""


@dataclass(frozen=True)
class Failure:
    """A node leaves service at a time, and comes back after a while."""

    node: int
    at_s: float
    down_s: float


@dataclass(frozen=True)
class Options:
    """Settings of one simulation; the defaults are the corrected simulator with no cost for preemption."""

    faithful: bool = False
    placement: str | None = None
    round_s: float = 300.0
    window: tuple[int, int] | None = None
    static: bool = False
    seed: int = 42
    restart_s: float = 0.0
    migration_s: float = 0.0
    checkpoint_every_s: float = 1800.0
    checkpoint_s: float = 0.0
    failures: tuple[Failure, ...] = ()
    failures_per_node_year: float = 0.0
    repair_s: float = 4 * 3600.0
    quotas: Mapping[str, float] = field(default_factory=dict)
    opt_time_limit_s: float = 2.0
    timeline: bool = True
    skip: bool = True
    """Jump over rounds in which no decision can change. Off only to prove that it changes nothing."""

    def __post_init__(self) -> None:
        if not 0 < self.round_s < float("inf"):
            raise InputError("must be more than 0 seconds", field="round", value=self.round_s)
        for name in ("restart_s", "migration_s", "checkpoint_s", "failures_per_node_year"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise InputError("must not be negative", field=name, value=getattr(self, name))
        for name in ("checkpoint_every_s", "repair_s", "opt_time_limit_s"):
            if not getattr(self, name) > 0:
                raise InputError("must be more than 0", field=name, value=getattr(self, name))
        if self.window is not None and not 0 <= self.window[0] < self.window[1]:
            raise InputError("must be FIRST:LAST with 0 <= FIRST < LAST", field="window", value=self.window)
