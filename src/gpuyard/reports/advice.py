"""What would help a job that waited or ran slowly."""

from __future__ import annotations

from typing import Any

from gpuyard.core.reasons import WAIT_REASONS
from gpuyard.reports.phrases import hours

WORTH = 0.02
"""Waits below this share of the job's life are not worth advice."""


def advise(job: dict[str, Any], slow_s: float, short_s: float, lasted: float, drawn: bool) -> list[str]:
    """Say what would help, the longest wait first; `drawn` tells whether the run kept a timeline of the job."""
    floor = WORTH * lasted
    reasons = sorted(WAIT_REASONS, key=lambda reason: -job[reason.column])
    waits = [(job[reason.column], reason.helps) for reason in reasons]
    advice = [f"{hours(waited)} of waiting: {helps}" for waited, helps in waits if waited > floor]
    if short_s > floor:
        better = "an allocation that follows demand (tune), or nodes with more CPUs per GPU"
        advice.append(f"{hours(short_s)} with fewer CPUs than its demand of {job['cpu_demand']:g}: {better}")
    elif slow_s > floor:
        advice.append(f"{hours(slow_s)} below full speed: see memory, storage and placement of its spans")
    if job["preemptions"] > 2:
        advice.append(f"preempted {job['preemptions']} times: an order that changes its mind less often, such as fifo")
    if not drawn and job["held_s"] > 0:
        advice.append("the run kept no timeline; with one, this tells when and where the job ran")
    return advice or ["nothing: it hardly waited and ran at full speed"]
