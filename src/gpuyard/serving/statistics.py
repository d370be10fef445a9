"""What became of requests: exact counts for each service, in the shape that Triton gives them."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gpuyard.serving.protocol.contract import VERSION

NS = 1_000_000_000


class Refusal(StrEnum):
    """Why an admissible request got no result."""

    REFUSED = "refused"
    """At once: by the plan's figures it could not be answered in time, or its model is unloaded, or the server ends."""
    LATE = "late"
    """After waiting: it could no longer be answered in time."""
    FAILED = "failed"
    """Its batch came to nothing."""


@dataclass(slots=True)
class Duration:
    """How often, and how long in all."""

    count: int = 0
    total_s: float = 0.0

    def add(self, seconds: float, count: int = 1) -> None:
        """One more."""
        self.count += count
        self.total_s += seconds

    def told(self) -> dict[str, int]:
        """As Triton has it."""
        return {"count": self.count, "ns": round(self.total_s * NS)}


@dataclass(slots=True)
class ServiceStatistics:
    """One service since the server began."""

    arrived: int = 0
    rows_arrived: int = 0
    pending: int = 0
    success: Duration = field(default_factory=Duration)
    fail: Duration = field(default_factory=Duration)
    failures: Counter[str] = field(default_factory=Counter)
    queue: Duration = field(default_factory=Duration)
    compute: Duration = field(default_factory=Duration)
    rows: int = 0
    """Of requests that were answered."""
    batches: dict[int, Duration] = field(default_factory=lambda: defaultdict(Duration))
    last_ms: int = 0
    """When a request arrived last that was answered, in milliseconds since 1970."""

    def arrive(self, rows: int) -> None:
        """A request has come."""
        self.arrived += 1
        self.rows_arrived += rows
        self.pending += 1

    def ask(self) -> None:
        """A stage is asked for a request of an application, whose rows have been counted as it came."""
        self.arrive(0)

    def turn_away(self) -> None:
        """A request has come to a closed door: it is refused, and no plan has to reckon with more like it."""
        self.arrive(0)
        self.refuse(Refusal.REFUSED)

    def answer(self, rows: int, queue_s: float, compute_s: float, total_s: float, wall_ms: int) -> None:
        """A request was answered."""
        self.pending -= 1
        self.rows += rows
        self.queue.add(queue_s)
        self.compute.add(compute_s)
        self.success.add(total_s)
        self.last_ms = wall_ms

    def refuse(self, why: Refusal, total_s: float = 0.0) -> None:
        """A request gets no result."""
        self.pending -= 1
        self.fail.add(total_s)
        self.failures[why] += 1

    def told(self, name: str) -> dict[str, Any]:
        """As Triton has it; nothing is cached, and putting batches together is a part of computing them."""
        none = Duration().told()
        return {
            "name": name,
            "version": VERSION,
            "last_inference": self.last_ms,
            "inference_count": self.rows,
            "execution_count": sum(each.count for each in self.batches.values()),
            "inference_stats": {
                "success": self.success.told(), "fail": self.fail.told(), "queue": self.queue.told(),
                "compute_input": none, "compute_infer": self.compute.told(), "compute_output": none,
                "cache_hit": none, "cache_miss": none,
            },
            "batch_stats": [
                {"batch_size": size, "compute_input": none, "compute_infer": each.told(), "compute_output": none}
                for size, each in sorted(self.batches.items())
            ],
        }  # fmt: skip
