"""What users see of a run's jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuyard.client.control import messages
from gpuyard.core.grants import Grant
from gpuyard.runtime.records import JobRecord


def queue_message(records: Iterable[JobRecord], now: float, about: dict[str, str]) -> Any:
    """All jobs, and how far each is."""
    kinds = messages()
    jobs = [
        kinds["QueuedJob"](
            job=record.name,
            state=record.state,
            model=record.job.model,
            gpus=record.job.gpus,
            arrival_s=record.job.arrival_s,
            done_steps=record.done_steps,
            total_steps=record.total_steps,
            places=places_of(record.attempt.grant if record.attempt else record.target),
            reason=record.note or record.reason,
            attempt=record.attempts,
            ended_s=record.finish_s or 0.0,
        )
        for record in records
    ]
    return kinds["QueueResponse"](now_s=now, jobs=jobs, **about)


def places_of(grant: Grant | None) -> str:
    """GPUs as people write them: node0:1 node0:2."""
    return " ".join(f"{part.node}:{part.gpu}" for part in grant.parts) if grant is not None else ""
