"""What is recorded of each simulated job: its line of progress, the span it is in, and the page of the timeline."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from gpuyard.core.arrays import Bytes, Floats, Ints, Small
from gpuyard.core.books import DEMANDS, Books, give_back
from gpuyard.core.kernel import inner
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.plan import PLACED, REASONS
from gpuyard.policies.tables import JobProgress, Tables

FINISHED, PREEMPTED, MOVED, RESIZED, FAILED, RUNNING = cast("tuple[int, ...]", tuple(np.arange(6)))
"""How a span of the timeline ended; the order of results.ENDED. Plain ints would compile one variant for each value."""


class Tally(NamedTuple):
    """What is recorded about each job."""

    work: Floats  # iterations after which it ends, whatever a policy knows of that
    finish: Floats  # infinite until it has finished
    finish_at: Floats  # when it will, if nothing changes; infinite while it waits
    start: Floats  # first start; infinite before
    saved: Floats  # iterations that a failure cannot take away
    reason: Bytes  # why it waits now; PLACED while it runs or is not there
    reason_since: Floats
    waits: Floats  # job x REASONS, seconds
    preemptions: Small
    moves: Small
    restarts: Small
    span_start: Floats
    alone: Floats  # speed with what it holds if nobody shared its GPUs
    worked: Floats  # one number: iterations done by all jobs in spans that have ended


class Costs(NamedTuple):
    """Seconds that starts and checkpoints cost; see Options."""

    start_cost_s: float
    restart_cost_s: float
    migration_cost_s: float
    checkpoint_every_s: float
    checkpoint_cost_s: float


class State(NamedTuple):
    """Everything that changes, and what it changes by."""

    tables: Tables
    tally: Tally
    expected: Floats  # the speed to expect of a job that waits
    measured: Bytes
    active: Ints  # unfinished jobs that have arrived, in the order of the last decision
    by_number: Ints  # the same, in the order of the tables
    counts: Ints  # ACTIVE, ARRIVED, FINISHED, FINISHED_MEASURED


ACTIVE, ARRIVED, FINISHED_ALL, FINISHED_MEASURED = range(4)


class Log(NamedTuple):
    """A page of the timeline: spans with equal GPUs and amounts."""

    job: Small
    start: Floats
    end: Floats
    amounts: Floats  # (CPUs, memory GB, storage MB/s) of the whole job, speed
    ended: Bytes
    gpu_ids: Small
    filled: Ints  # spans, GPU ids


def new_log(spans: int, gpu_ids: int) -> Log:
    """Return an empty page."""
    return Log(
        np.empty(spans, np.int32), np.empty(spans), np.empty(spans), np.empty((spans, 4)), np.empty(spans, np.int8),
        np.empty(gpu_ids, np.int32), np.zeros(2, np.int64),
    )  # fmt: skip


def new_tally(iterations: Floats) -> Tally:
    """Return the records of jobs with so much work each that have not arrived."""
    never, count = np.inf, len(iterations)
    return Tally(
        work=iterations.copy(), finish=np.full(count, never), finish_at=np.full(count, never),
        start=np.full(count, never), saved=np.zeros(count), reason=np.full(count, PLACED, np.int8),
        reason_since=np.zeros(count), waits=np.zeros((count, len(REASONS))), preemptions=np.zeros(count, np.int32),
        moves=np.zeros(count, np.int32), restarts=np.zeros(count, np.int32),
        span_start=np.zeros(count), alone=np.zeros(count), worked=np.zeros(1),
    )  # fmt: skip


@inner
def done_by(progress: JobProgress, tally: Tally, job: int, now: float) -> float:
    """Iterations that a job has done by now."""
    span = max(now - progress.since[job], 0.0)
    if progress.credit_s[0] > 0.0:
        span = np.floor(span / progress.credit_s[0] + 1e-9)
    return float(min(progress.done[job] + progress.rate[job] * span, tally.work[job]))


@inner
def close_span(books: Books, progress: JobProgress, tally: Tally, log: Log, job: int, end: float, how: int) -> None:
    """Write down what a job held since its span began; spans of no length leave no trace."""
    start = tally.span_start[job]
    wide = books.lines[job]
    span = end - start
    if span <= 0.0 or len(log.job) == 0:
        return
    at = log.filled[0]
    log.job[at] = job
    log.start[at] = start
    log.end[at] = end
    for r in range(DEMANDS):
        log.amounts[at, r] = books.line_amounts[books.first_line[job], r] * wide
    log.amounts[at, DEMANDS] = progress.speed[job]
    log.ended[at] = how
    first = books.first_line[job]
    for i in range(first, first + wide):
        log.gpu_ids[log.filled[1]] = books.line_gpu[i]
        log.filled[1] += 1
    log.filled[0] += 1


@inner
def keep_checkpoint(progress: JobProgress, tally: Tally, costs: Costs, job: int, now: float) -> None:
    """Note the work done at the last checkpoint, if it lies on the line that ends now."""
    began = progress.held_since[job]
    at = began + np.floor((now - began) / costs.checkpoint_every_s) * costs.checkpoint_every_s
    if at >= progress.since[job]:
        tally.saved[job] = done_by(progress, tally, job, at)


@inner
def stop(books: Books, progress: JobProgress, tally: Tally, log: Log, job: int, now: float, how: int) -> None:
    """Close a job's span, bring its line up to date and take its resources back."""
    end_line(books, progress, tally, log, job, now, how)
    give_back(books, job)


@inner
def end_line(books: Books, progress: JobProgress, tally: Tally, log: Log, job: int, now: float, how: int) -> None:
    """Close a job's span and bring its line up to date; from now on it does nothing."""
    close_span(books, progress, tally, log, job, now, how)
    done = done_by(progress, tally, job, now)
    tally.worked[0] += done - progress.done[job]
    progress.done[job] = done
    progress.since[job] = now
    progress.rate[job] = 0.0
    tally.finish_at[job] = np.inf


@inner
def release(progress: JobProgress, expected: Floats, job: int, now: float) -> None:
    """A job no longer has GPUs."""
    progress.held_s[job] += now - progress.held_since[job]
    progress.held_since[job] = np.inf
    progress.last_held[job] = now
    progress.speed[job] = expected[job]


@inner
def draw_line(jobs: Jobs, progress: JobProgress, tally: Tally, costs: Costs, job: int, speed: float) -> None:
    """From `progress.since` on, a job goes on from what it has done at this speed."""
    progress.speed[job] = speed
    left = tally.work[job] - progress.done[job]
    per_iteration = jobs.iteration_s[job] / speed
    quantum = progress.credit_s[0]
    if quantum > 0.0:
        progress.rate[job] = np.floor(quantum / per_iteration)
        spans = max(np.ceil(left / progress.rate[job]), 1.0)
        tally.finish_at[job] = progress.since[job] + quantum * spans
    else:
        pace = costs.checkpoint_every_s / (costs.checkpoint_every_s + costs.checkpoint_cost_s)
        progress.rate[job] = pace / per_iteration
        tally.finish_at[job] = progress.since[job] + left / progress.rate[job]


@inner
def note_reason(tally: Tally, job: int, reason: int, now: float) -> None:
    """A job waits for this reason from now on, or is placed; what it has waited for the last one is added up."""
    old = tally.reason[job]
    if old == reason:
        return
    if old != PLACED:
        tally.waits[job, old] += now - tally.reason_since[job]
    tally.reason[job] = reason
    tally.reason_since[job] = now
