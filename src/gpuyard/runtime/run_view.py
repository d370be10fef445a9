"""A run as people watch it: who runs where and how far, who waits, and how long it will take at the least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gpuyard.client.control import UNKNOWN
from gpuyard.runtime.queue_view import places_of
from gpuyard.runtime.real_cluster import RealCluster
from gpuyard.runtime.records import JobRecord, JobState

_ORDER = (JobState.RUNNING, JobState.WAITING, JobState.COMING)


@dataclass(frozen=True)
class JobView:
    """One job that is not over."""

    job: str
    state: JobState
    gpus: float
    places: str
    done_steps: int
    total_steps: int
    left_s: float | None
    """Of the run, at its present speed; None where nobody knows its length."""
    reason: str


@dataclass(frozen=True)
class RunView:
    """All jobs at one moment."""

    now_s: float
    running: int
    waiting: int
    over: int
    total: int
    left_s: float
    """What the longest job takes still, or all of them together on all GPUs if that is more."""
    jobs: tuple[JobView, ...]


def view_of(world: RealCluster, now: float) -> RunView:
    """The run as it is now; those who run come first."""
    records = world.records.values()
    jobs = [_job(world, each) for each in records if not each.state.over]
    return run_view(jobs, len(records), sum(int(count) for count in world.cluster.node_gpus), now)


def run_view(jobs: Iterable[JobView], total: int, gpus: int, now: float) -> RunView:
    """A run of so many jobs, of which these are not over, on so many GPUs."""
    shown = sorted(jobs, key=lambda job: _ORDER.index(job.state))
    known = [(job.left_s, job.gpus) for job in shown if job.left_s is not None]
    left_s = max([sum(left * width for left, width in known) / gpus, *(left for left, _ in known)])
    states = Counter(job.state for job in shown)
    return RunView(
        now, states[JobState.RUNNING], states[JobState.WAITING], total - len(shown), total, left_s, tuple(shown)
    )


def _job(world: RealCluster, record: JobRecord) -> JobView:
    done, total = record.done_steps, record.total_steps
    left_s = None if total == UNKNOWN else max(total - done, 0) * world.step_s(record)
    places = places_of(record.attempt.grant if record.attempt else record.target)
    reason = record.note or ("" if record.state is JobState.RUNNING else record.reason)
    return JobView(record.name, record.state, record.job.gpus, places, done, total, left_s, reason)
