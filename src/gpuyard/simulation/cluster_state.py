"""The steps that change the simulated cluster between two decisions: who finishes, who fails, what a plan gives."""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Bytes, Floats, Ints
from gpuyard.core.books import Books, give_back, settle, take
from gpuyard.core.kernel import Boxed, inner, kernel
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.plan import PLACED, ROUND, Plan
from gpuyard.policies.tables import JobProgress
from gpuyard.simulation.job_lines import (
    ACTIVE,
    ARRIVED,
    FAILED,
    FINISHED,
    FINISHED_ALL,
    FINISHED_MEASURED,
    MOVED,
    PREEMPTED,
    RESIZED,
    RUNNING,
    Costs,
    Log,
    State,
    Tally,
    close_span,
    draw_line,
    end_line,
    keep_checkpoint,
    release,
    stop,
)
from gpuyard.simulation.neighbours import slow_down_all, slow_down_beside


@inner
def _finish(
    books: Books, jobs: Jobs, progress: JobProgress, tally: Tally, expected: Floats, measured: Bytes, counts: Ints,
    log: Log, job: int, at: float,
) -> None:  # fmt: skip
    """A job has done all its work."""
    stop(books, jobs, progress, tally, log, job, at, FINISHED)
    progress.done[job] = jobs.iterations[job]
    release(progress, expected, job, at)
    tally.finish[job] = at
    counts[FINISHED_ALL] += 1
    counts[FINISHED_MEASURED] += measured[job]


@inner
def _next_to_finish(books: Books, tally: Tally) -> int:
    """The job that will finish first if nothing changes; -1 if nobody runs."""
    first = -1
    for k in range(books.busy[0]):
        job = books.holders[k]
        if first < 0 or tally.finish_at[job] < tally.finish_at[first]:
            first = job
    return first


@inner
def _drop_finished(tally: Tally, listed: Ints, count: int) -> int:
    """Leave finished jobs out of a list; returns how many are left."""
    kept = 0
    for i in range(count):
        if tally.finish[listed[i]] == np.inf:
            listed[kept] = listed[i]
            kept += 1
    return kept


@kernel
def advance(state: Boxed[State], costs: Costs, log: Log, now: float) -> float:
    """Finish every job whose time has come by now, each at its own instant, and let in those that have arrived.

    Returns when the next of the others will finish if nothing changes.
    """
    books, jobs, progress = state.value.tables.books, state.value.tables.jobs, state.value.tables.progress
    tally, count, expected, measured = state.value.tally, state.value.counts, state.value.expected, state.value.measured
    active, by_number = state.value.active, state.value.by_number
    finished = count[FINISHED_ALL]
    if len(jobs.slowdown):  # whoever ends first makes its neighbours faster: one after the other
        job = _next_to_finish(books, tally)
        while job >= 0 and tally.finish_at[job] <= now:
            at, gpu = tally.finish_at[job], books.line_gpu[books.first_line[job]]
            _finish(books, jobs, progress, tally, expected, measured, count, log, job, at)
            slow_down_beside(books, jobs, progress, tally, costs, log, gpu, at)
            job = _next_to_finish(books, tally)
    wake = np.inf
    for k in range(books.busy[0] - 1, -1, -1):
        job = books.holders[k]
        at = tally.finish_at[job]
        if at <= now:
            _finish(books, jobs, progress, tally, expected, measured, count, log, job, at)
        else:
            wake = min(wake, at)
    if count[FINISHED_ALL] > finished:
        _drop_finished(tally, active, count[ACTIVE])
        count[ACTIVE] = _drop_finished(tally, by_number, count[ACTIVE])
    arrived = count[ARRIVED]
    while arrived < len(jobs.arrival) and jobs.arrival[arrived] <= now:
        active[count[ACTIVE]] = by_number[count[ACTIVE]] = arrived
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
        keep_checkpoint(jobs, progress, tally, costs, job, now)
        stop(books, jobs, progress, tally, log, job, now, FAILED)
        progress.done[job] = tally.saved[job]
        release(progress, state.value.expected, job, now)
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
        end_line(books, jobs, progress, tally, log, job, now, PREEMPTED)
    for job in plan.stopped:
        give_back(books, job)
    for job in plan.stopped:
        release(progress, expected, job, now)
        tally.preemptions[job] += 1
    for p in range(len(plan.jobs)):
        job = plan.jobs[p]
        if books.slot[job] < 0:
            continue
        if not _same_gpus(books, plan, job, p):
            stop(books, jobs, progress, tally, log, job, now, MOVED)
            tally.moves[job] += 1
            tally.saved[job] = progress.done[job]
            progress.since[job] = now + costs.migration_cost_s
        elif not _same_terms(books, tally, plan, speeds, job, p):
            begins = max(progress.since[job], now)
            keep_checkpoint(jobs, progress, tally, costs, job, now)
            stop(books, jobs, progress, tally, log, job, now, RESIZED)
            progress.since[job] = begins
    starting = np.empty(len(plan.jobs), dtype=np.int64)
    count = 0
    for p in range(len(plan.jobs)):
        job = plan.jobs[p]
        if books.slot[job] < 0:
            if not take(books, job, plan.gpu_ids[plan.first[p] : plan.first[p + 1]], plan.amounts[p]):
                return job, np.inf
            starting[count] = p
            count += 1
    starting = starting[:count]
    for p in starting:
        _note_reason(tally, plan.jobs[p], PLACED, now)
    for p in starting:
        _begin(progress, tally, costs, plan.jobs[p], now)
    wake = np.inf
    for p in starting:
        job = plan.jobs[p]
        tally.alone[job] = speeds[p]
        draw_line(jobs, progress, tally, costs, job, speeds[p])
        wake = min(wake, tally.finish_at[job])
    if len(jobs.slowdown):
        wake = min(wake, slow_down_all(books, jobs, progress, tally, costs, log, now))
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
        close_span(books, progress, tally, log, job, end, RUNNING)
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
def _same_terms(books: Books, tally: Tally, plan: Plan, speeds: Floats, job: int, p: int) -> bool:
    for r in range(books.line_amounts.shape[1]):
        if books.line_amounts[books.first_line[job], r] != plan.amounts[p, r]:
            return False
    return bool(tally.alone[job] == speeds[p])


@inner
def _begin(progress: JobProgress, tally: Tally, costs: Costs, job: int, now: float) -> None:
    """Begin a span, and note when a job got GPUs if it had none."""
    tally.span_start[job] = now
    if progress.held_since[job] == np.inf:
        progress.held_since[job] = now
        progress.longest_wait[job] = max(progress.longest_wait[job], now - progress.last_held[job])
        progress.since[job] = now + (costs.restart_cost_s if tally.start[job] < np.inf else 0.0)
        tally.saved[job] = progress.done[job]
        tally.start[job] = min(tally.start[job], now)


@inner
def _note_reason(tally: Tally, job: int, reason: int, now: float) -> None:
    old = tally.reason[job]
    if old == reason:
        return
    if old != PLACED:
        tally.waits[job, old] += now - tally.reason_since[job]
    tally.reason[job] = reason
    tally.reason_since[job] = now
