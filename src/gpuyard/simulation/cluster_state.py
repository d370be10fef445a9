"""The simulated cluster's state between two decisions, and the steps that change it."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from gpuyard.core.arrays import Bytes, Floats, Ints, Small
from gpuyard.core.books import DEMANDS, Books, give_back, settle, take
from gpuyard.core.kernel import Boxed, inner, kernel
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.plan import PLACED, REASONS, ROUND, Plan
from gpuyard.policies.tables import JobProgress, Tables

FINISHED, PREEMPTED, MOVED, RESIZED, FAILED, RUNNING = cast("tuple[int, ...]", tuple(np.arange(6)))
"""How a span of the timeline ended; the order of results.ENDED. Plain ints would compile one variant for each value."""


class Tally(NamedTuple):
    """What is recorded about each job."""

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
    worked: Floats  # one number: iterations done by all jobs in spans that have ended


class Costs(NamedTuple):
    """Seconds that starts and checkpoints cost; see Options."""

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


def new_tally(count: int) -> Tally:
    """Return the records of jobs that have not arrived."""
    never = np.inf
    return Tally(
        finish=np.full(count, never), finish_at=np.full(count, never), start=np.full(count, never),
        saved=np.zeros(count), reason=np.full(count, PLACED, np.int8), reason_since=np.zeros(count),
        waits=np.zeros((count, len(REASONS))), preemptions=np.zeros(count, np.int32),
        moves=np.zeros(count, np.int32), restarts=np.zeros(count, np.int32),
        span_start=np.zeros(count), worked=np.zeros(1),
    )  # fmt: skip


@inner
def _done(progress: JobProgress, jobs: Jobs, job: int, now: float) -> float:
    span = max(now - progress.since[job], 0.0)
    if progress.credit_s[0] > 0.0:
        span = np.floor(span / progress.credit_s[0] + 1e-9)
    return float(min(progress.done[job] + progress.rate[job] * span, jobs.iterations[job]))


@inner
def _close_span(books: Books, progress: JobProgress, tally: Tally, log: Log, job: int, end: float, how: int) -> None:
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
def _keep_checkpoint(jobs: Jobs, progress: JobProgress, tally: Tally, costs: Costs, job: int, now: float) -> None:
    """Note the work done at the last checkpoint, if it lies on the line that ends now."""
    began = progress.held_since[job]
    at = began + np.floor((now - began) / costs.checkpoint_every_s) * costs.checkpoint_every_s
    if at >= progress.since[job]:
        tally.saved[job] = _done(progress, jobs, job, at)


@inner
def _stop(
    books: Books, jobs: Jobs, progress: JobProgress, tally: Tally, log: Log, job: int, now: float, how: int
) -> None:
    """Close a job's span, bring its line up to date and take its resources back."""
    _close_span(books, progress, tally, log, job, now, how)
    done = _done(progress, jobs, job, now)
    tally.worked[0] += done - progress.done[job]
    progress.done[job] = done
    progress.since[job] = now
    progress.rate[job] = 0.0
    tally.finish_at[job] = np.inf
    give_back(books, job)


@inner
def _release(progress: JobProgress, expected: Floats, job: int, now: float) -> None:
    """A job no longer has GPUs."""
    progress.held_s[job] += now - progress.held_since[job]
    progress.held_since[job] = np.inf
    progress.last_held[job] = now
    progress.speed[job] = expected[job]


@kernel
def advance(state: Boxed[State], log: Log, now: float) -> float:
    """Finish every job whose time has come by now, each at its own instant, and let in those that have arrived.

    Returns when the next of the others will finish if nothing changes.
    """
    books, jobs, progress = state.value.tables.books, state.value.tables.jobs, state.value.tables.progress
    tally, count, active = state.value.tally, state.value.counts, state.value.active
    expected, measured = state.value.expected, state.value.measured
    finished = count[FINISHED_ALL]
    wake = np.inf
    for k in range(books.busy[0] - 1, -1, -1):
        job = books.holders[k]
        at = tally.finish_at[job]
        if at <= now:
            _stop(books, jobs, progress, tally, log, job, at, FINISHED)
            progress.done[job] = jobs.iterations[job]
            _release(progress, expected, job, at)
            tally.finish[job] = at
            count[FINISHED_ALL] += 1
            count[FINISHED_MEASURED] += measured[job]
        else:
            wake = min(wake, at)
    if count[FINISHED_ALL] > finished:
        kept = 0
        for i in range(count[ACTIVE]):
            if tally.finish[active[i]] == np.inf:
                active[kept] = active[i]
                kept += 1
        count[ACTIVE] = kept
    arrived = count[ARRIVED]
    while arrived < len(jobs.arrival) and jobs.arrival[arrived] <= now:
        active[count[ACTIVE]] = arrived
        tally.reason[arrived] = ROUND
        tally.reason_since[arrived] = jobs.arrival[arrived]
        count[ACTIVE] += 1
        arrived += 1
    count[ARRIVED] = arrived
    return wake


@kernel
def fail_node(state: Boxed[State], costs: Costs, log: Log, node: int, now: float) -> None:
    """Stop every job with a GPU on this node; each goes back to its last checkpoint."""
    books, jobs, progress = state.value.tables.books, state.value.tables.jobs, state.value.tables.progress
    tally = state.value.tally
    for k in range(books.busy[0] - 1, -1, -1):
        job = books.holders[k]
        hit = False
        for line in range(books.first_line[job], books.first_line[job] + books.lines[job]):
            hit = hit or books.line_node[line] == node
        if not hit:
            continue
        _keep_checkpoint(jobs, progress, tally, costs, job, now)
        _stop(books, jobs, progress, tally, log, job, now, FAILED)
        progress.done[job] = tally.saved[job]
        _release(progress, state.value.expected, job, now)
        tally.restarts[job] += 1
        tally.reason[job] = ROUND
        tally.reason_since[job] = now


@kernel
def commit(
    state: Boxed[State], costs: Costs, log: Log, plan: Plan, speeds: Floats, order: Ints, now: float
) -> tuple[int, float]:
    """Carry a plan out through the ledger; `speeds` is what the performance model says of each job it gives something.

    Returns the job whose resources were not free, or -1, and when the next of the jobs started here will finish.
    """
    books, jobs, progress = state.value.tables.books, state.value.tables.jobs, state.value.tables.progress
    tally, expected, active = state.value.tally, state.value.expected, state.value.active
    for job in plan.stopped:
        _stop(books, jobs, progress, tally, log, job, now, PREEMPTED)
        _release(progress, expected, job, now)
        tally.preemptions[job] += 1
    for p in range(len(plan.jobs)):
        job = plan.jobs[p]
        if books.slot[job] < 0:
            continue
        if not _same_gpus(books, plan, job, p):
            _stop(books, jobs, progress, tally, log, job, now, MOVED)
            tally.moves[job] += 1
            tally.saved[job] = progress.done[job]
            progress.since[job] = now + costs.migration_cost_s
        elif not _same_terms(books, progress, plan, speeds, job, p):
            begins = max(progress.since[job], now)
            _keep_checkpoint(jobs, progress, tally, costs, job, now)
            _stop(books, jobs, progress, tally, log, job, now, RESIZED)
            progress.since[job] = begins
    wake = np.inf
    for p in range(len(plan.jobs)):
        job = plan.jobs[p]
        if books.slot[job] < 0:
            if not _start(books, jobs, progress, tally, costs, plan, speeds, p, now):
                return job, wake
            wake = min(wake, tally.finish_at[job])
    settle(books)
    for i in range(len(order)):
        active[i] = order[i]
        if plan.reasons[i] != PLACED:
            _note_reason(tally, order[i], plan.reasons[i], now)
    return -1, wake


@kernel
def close(state: Boxed[State], log: Log, end: float) -> None:
    """Write down what still runs at the end, and waits that have not ended."""
    books, progress = state.value.tables.books, state.value.tables.progress
    tally = state.value.tally
    for k in range(books.busy[0]):
        job = books.holders[k]
        _close_span(books, progress, tally, log, job, end, RUNNING)
        progress.held_s[job] += end - progress.held_since[job]
    for i in range(state.value.counts[ACTIVE]):
        _note_reason(tally, state.value.active[i], PLACED, end)


@inner
def _same_gpus(books: Books, plan: Plan, job: int, p: int) -> bool:
    first = books.first_line[job]
    for i in range(books.lines[job]):
        if books.line_gpu[first + i] != plan.gpu_ids[plan.first[p] + i]:
            return False
    return True


@inner
def _same_terms(books: Books, progress: JobProgress, plan: Plan, speeds: Floats, job: int, p: int) -> bool:
    for r in range(books.line_amounts.shape[1]):
        if books.line_amounts[books.first_line[job], r] != plan.amounts[p, r]:
            return False
    return bool(progress.speed[job] == speeds[p])


@inner
def _start(
    books: Books, jobs: Jobs, progress: JobProgress, tally: Tally, costs: Costs, plan: Plan, speeds: Floats, p: int,
    now: float,
) -> bool:  # fmt: skip
    """Give a job its resources and draw its line from here on."""
    job = plan.jobs[p]
    if not take(books, job, plan.gpu_ids[plan.first[p] : plan.first[p + 1]], plan.amounts[p]):
        return False
    if progress.held_since[job] == np.inf:
        progress.held_since[job] = now
        progress.longest_wait[job] = max(progress.longest_wait[job], now - progress.last_held[job])
        progress.since[job] = now + (costs.restart_cost_s if tally.start[job] < np.inf else 0.0)
        tally.saved[job] = progress.done[job]
        tally.start[job] = min(tally.start[job], now)
    tally.span_start[job] = now
    _note_reason(tally, job, PLACED, now)
    progress.speed[job] = speeds[p]
    left = jobs.iterations[job] - progress.done[job]
    per_iteration = jobs.iteration_s[job] / speeds[p]
    quantum = progress.credit_s[0]
    if quantum > 0.0:
        progress.rate[job] = np.floor(quantum / per_iteration)
        spans = max(np.ceil(left / progress.rate[job]), 1.0)
        tally.finish_at[job] = progress.since[job] + quantum * spans
    else:
        pace = costs.checkpoint_every_s / (costs.checkpoint_every_s + costs.checkpoint_cost_s)
        progress.rate[job] = pace / per_iteration
        tally.finish_at[job] = progress.since[job] + left / progress.rate[job]
    return True


@inner
def _note_reason(tally: Tally, job: int, reason: int, now: float) -> None:
    old = tally.reason[job]
    if old == reason:
        return
    if old != PLACED:
        tally.waits[job, old] += now - tally.reason_since[job]
    tally.reason[job] = reason
    tally.reason_since[job] = now
