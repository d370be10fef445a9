"""Carrying a plan out in the simulated cluster: who stops, moves, gets other amounts or starts."""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.books import Books, give_back, settle, take
from gpuyard.core.kernel import Boxed, inner, kernel
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.plan import PLACED, Plan
from gpuyard.policies.tables import JobProgress
from gpuyard.simulation.job_lines import (
    MOVED,
    PREEMPTED,
    RESIZED,
    Costs,
    Log,
    State,
    Tally,
    draw_line,
    end_line,
    keep_checkpoint,
    note_reason,
    release,
    stop,
)
from gpuyard.simulation.neighbours import slow_down_all


@kernel
def commit(
    state: Boxed[State], costs: Costs, log: Log, plan: Plan, speeds: Floats, order: Ints, now: float
) -> tuple[int, float]:
    """Carry a plan out through the ledger; `speeds` is what the performance model says of each job it gives something.

    Returns the job whose resources were not free, or -1, and when the next of the jobs started here will finish.
    """
    books, jobs, progress = state.value.tables.books, state.value.tables.jobs, state.value.tables.progress
    tally, expected, active = state.value.tally, state.value.expected, state.value.active
    _preempt(books, progress, tally, expected, log, plan.stopped, now)
    for p in range(len(plan.jobs)):
        job = plan.jobs[p]
        if books.slot[job] < 0:
            continue
        begins = max(progress.since[job], now)  # what is left of a start is still to come, also after a move
        if not _same_gpus(books, plan, job, p):
            stop(books, progress, tally, log, job, now, MOVED)
            tally.moves[job] += 1
            tally.saved[job] = progress.done[job]
            progress.since[job] = begins + costs.migration_cost_s
        elif not _same_terms(books, tally, plan, speeds, job, p):
            keep_checkpoint(progress, tally, costs, job, now)
            stop(books, progress, tally, log, job, now, RESIZED)
            progress.since[job] = begins
    starting = np.empty(len(plan.jobs), dtype=np.int64)
    count, refused = _take_all(books, plan, starting)
    if refused >= 0:
        return refused, np.inf
    wake = _begin(jobs, progress, tally, costs, plan, speeds, starting[:count], now)
    if len(jobs.slowdown):
        wake = min(wake, slow_down_all(books, jobs, progress, tally, costs, log, now))
    settle(books)
    for i in range(len(order)):
        active[i] = order[i]
        if plan.reasons[i] != PLACED:
            note_reason(tally, order[i], plan.reasons[i], now)
    return -1, wake


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
def _preempt(
    books: Books, progress: JobProgress, tally: Tally, expected: Floats, log: Log, stopped: Ints, now: float
) -> None:
    """Stop jobs that a plan takes everything from.

    Here and in `_begin` there are several passes over them: in a short one, far more jobs are fetched from memory at
    the same time.
    """
    for job in stopped:
        end_line(books, progress, tally, log, job, now, PREEMPTED)
    for job in stopped:
        give_back(books, job)
    for job in stopped:
        release(progress, expected, job, now)
        tally.preemptions[job] += 1


@inner
def _take_all(books: Books, plan: Plan, starting: Ints) -> tuple[int, int]:
    """Let whoever holds nothing take what a plan gives it, and list its positions there.

    Returns how many they are, and the job whose resources were not free, or -1.
    """
    count = 0
    for p in range(len(plan.jobs)):
        job = plan.jobs[p]
        if books.slot[job] < 0:
            if not take(books, job, plan.gpu_ids[plan.first[p] : plan.first[p + 1]], plan.amounts[p]):
                return count, int(job)
            starting[count] = p
            count += 1
    return count, -1


@inner
def _begin(
    jobs: Jobs, progress: JobProgress, tally: Tally, costs: Costs, plan: Plan, speeds: Floats, starting: Ints,
    now: float,
) -> float:  # fmt: skip
    """Begin the spans and draw the lines of those who took something; returns when the first of them will finish."""
    for p in starting:
        note_reason(tally, plan.jobs[p], PLACED, now)
    for p in starting:
        job = plan.jobs[p]
        tally.span_start[job] = now
        if progress.held_since[job] == np.inf:
            _note_start(progress, tally, costs, job, now)
    wake = np.inf
    for p in starting:
        job = plan.jobs[p]
        tally.alone[job] = speeds[p]
        draw_line(jobs, progress, tally, costs, job, speeds[p])
        wake = min(wake, tally.finish_at[job])
    return wake


@inner
def _note_start(progress: JobProgress, tally: Tally, costs: Costs, job: int, now: float) -> None:
    """A job without GPUs got some."""
    progress.held_since[job] = now
    progress.longest_wait[job] = max(progress.longest_wait[job], now - progress.last_held[job])
    progress.since[job] = now + (costs.restart_cost_s if tally.start[job] < np.inf else costs.start_cost_s)
    tally.saved[job] = progress.done[job]
    tally.start[job] = min(tally.start[job], now)
