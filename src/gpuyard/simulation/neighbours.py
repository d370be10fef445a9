"""Jobs that share a GPU slow each other down, as their profiles say: speeds change when neighbours come and go."""

from __future__ import annotations

import numpy as np

from gpuyard.core.books import Books
from gpuyard.core.grants import WHOLE
from gpuyard.core.kernel import inner
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.performance import neighbours_slowdown
from gpuyard.policies.tables import JobProgress
from gpuyard.simulation.job_lines import RESIZED, Costs, Log, Tally, close_span, done_by, draw_line, keep_checkpoint


@inner
def _slow_down(
    books: Books, jobs: Jobs, progress: JobProgress, tally: Tally, costs: Costs, log: Log, job: int, now: float
) -> None:
    """Let a job go on at the speed that its neighbours leave it, from now on."""
    speed = tally.alone[job] / neighbours_slowdown(jobs, books, job)
    if speed == progress.speed[job]:
        return
    begins = max(progress.since[job], now)
    keep_checkpoint(progress, tally, costs, job, now)
    close_span(books, progress, tally, log, job, now, RESIZED)
    done = done_by(progress, tally, job, now)
    tally.worked[0] += done - progress.done[job]
    progress.done[job] = done
    progress.since[job] = begins
    tally.span_start[job] = now
    draw_line(jobs, progress, tally, costs, job, speed)


@inner
def slow_down_beside(
    books: Books, jobs: Jobs, progress: JobProgress, tally: Tally, costs: Costs, log: Log, gpu: int, now: float
) -> None:
    """Somebody has left this GPU: those who share it go on at other speeds."""
    line = books.head[gpu]
    while line >= 0:
        job = books.line_holder[line]
        if books.part[job] < WHOLE:
            _slow_down(books, jobs, progress, tally, costs, log, job, now)
        line = books.following[line]


@inner
def slow_down_all(
    books: Books, jobs: Jobs, progress: JobProgress, tally: Tally, costs: Costs, log: Log, now: float
) -> float:
    """A plan was carried out; returns when the first of all who share a GPU will finish."""
    first = np.inf
    for k in range(books.busy[0]):
        job = books.holders[k]
        if books.part[job] < WHOLE:
            _slow_down(books, jobs, progress, tally, costs, log, job, now)
            first = min(first, tally.finish_at[job])
    return first
