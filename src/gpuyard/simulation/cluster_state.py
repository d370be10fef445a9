"""The steps that change the simulated cluster between two decisions: who finishes, who arrives, who fails."""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Bytes, Floats, Ints
from gpuyard.core.books import Books
from gpuyard.core.kernel import Boxed, inner, kernel
from gpuyard.policies.plan import PLACED, ROUND
from gpuyard.policies.tables import JobProgress
from gpuyard.simulation.job_lines import (
    ACTIVE,
    ARRIVED,
    FAILED,
    FINISHED,
    FINISHED_ALL,
    FINISHED_MEASURED,
    RUNNING,
    Costs,
    Log,
    State,
    Tally,
    close_span,
    keep_checkpoint,
    note_reason,
    release,
    stop,
)
from gpuyard.simulation.neighbours import slow_down_beside


@inner
def _finish(
    books: Books, progress: JobProgress, tally: Tally, expected: Floats, measured: Bytes, counts: Ints, log: Log,
    job: int, at: float,
) -> None:  # fmt: skip
    """A job has done all its work."""
    stop(books, progress, tally, log, job, at, FINISHED)
    progress.done[job] = tally.work[job]
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
            _finish(books, progress, tally, expected, measured, count, log, job, at)
            slow_down_beside(books, jobs, progress, tally, costs, log, gpu, at)
            job = _next_to_finish(books, tally)
    wake = np.inf
    for k in range(books.busy[0] - 1, -1, -1):
        job = books.holders[k]
        at = tally.finish_at[job]
        if at <= now:
            _finish(books, progress, tally, expected, measured, count, log, job, at)
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
    books, progress = state.value.tables.books, state.value.tables.progress
    tally = state.value.tally
    for k in range(books.busy[0] - 1, -1, -1):
        job = books.holders[k]
        hit = False
        for line in range(books.first_line[job], books.first_line[job] + books.lines[job]):
            hit = hit or books.line_node[line] == node
        if not hit:
            continue
        keep_checkpoint(progress, tally, costs, job, now)
        stop(books, progress, tally, log, job, now, FAILED)
        progress.done[job] = tally.saved[job]
        release(progress, state.value.expected, job, now)
        tally.restarts[job] += 1
        tally.reason[job] = ROUND
        tally.reason_since[job] = now


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
        note_reason(tally, state.value.active[i], PLACED, end)
