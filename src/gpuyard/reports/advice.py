"""What would help a job that waited or ran slowly."""

from __future__ import annotations

from typing import Any

from gpuyard.reports.words import REASONS, hours

_HELP = {
    "wait_gpus_s": "more GPUs or a lower load; an order that prefers it (srtf or las if it is short), or a priority",
    "wait_fragments_s": "fewer GPUs per job, or a placement that keeps whole nodes free (--placement best-fit)",
    "wait_resources_s": "the tune allocation, which lets jobs with a surplus give way; nodes with more CPU and memory",
    "wait_round_s": "shorter rounds (--round)",
    "wait_quota_s": "a larger quota for its tenant (--quota)",
    "wait_nodes_s": "spare nodes, or faster repair",
}

WORTH = 0.02
"""Waits below this share of the job's life are not worth advice."""


def advise(job: dict[str, Any], slow_s: float, short_s: float, lasted: float, drawn: bool) -> list[str]:
    """Say what would help, the longest wait first; `drawn` tells whether the run kept a timeline of the job."""
    floor = WORTH * lasted
    waits = sorted(((float(job[column]), column) for column in REASONS), reverse=True)
    advice = [f"{hours(waited)} of waiting: {_HELP[column]}" for waited, column in waits if waited > floor]
    if short_s > floor:
        better = "an allocation that follows demand (tune), or nodes with more CPUs per GPU"
        advice.append(f"{hours(short_s)} with fewer CPUs than the {job['cpus_wanted']:g} it wants: {better}")
    elif slow_s > floor:
        advice.append(f"{hours(slow_s)} below full speed: see memory, storage and placement of its spans")
    if job["preemptions"] > 2:
        advice.append(f"preempted {job['preemptions']} times: an order that changes its mind less often, such as fifo")
    if not drawn and job["held_s"] > 0:
        advice.append("the run kept no timeline; with one, this tells when and where the job ran")
    return advice or ["nothing: it hardly waited and ran at full speed"]
