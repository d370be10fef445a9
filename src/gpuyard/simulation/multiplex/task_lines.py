"""How far each task of a simulated shared cluster is: a line that is drawn anew whenever its speed changes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.ledger import Ledger
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.plan import PLACED, ROUND
from gpuyard.policies.tables import JobProgress, done_at
from gpuyard.simulation.job_lines import FAILED, FINISHED, MOVED, PREEMPTED, RESIZED, new_tally
from gpuyard.simulation.multiplex.books import SharedRecorder, note_reason
from gpuyard.simulation.options import Options


class TaskLines:
    """The lines of all tasks, and what is written down of them."""

    def __init__(self, jobs: Jobs, progress: JobProgress, ledger: Ledger, ids: NDArray[Any], options: Options) -> None:
        self._ids = ids
        self._jobs, self._progress, self._ledger, self._options = jobs, progress, ledger, options
        self.tally = new_tally(jobs.iterations)
        self.recorder = SharedRecorder(options.timeline)
        every, cost = options.checkpoint_every_s, options.checkpoint_cost_s
        self._pace = every / (every + cost)

    def job_id(self, job: int) -> object:
        """A task's id."""
        return self._ids[job]

    def done(self, job: int, now: float) -> float:
        """Iterations that a task has done by now."""
        return min(done_at(self._progress, job, now), float(self.tally.work[job]))

    def start(self, job: int, now: float) -> None:
        """A task has got a GPU; it works once it has started up, from the speed that `go_on` gives it."""
        progress, tally, options = self._progress, self.tally, self._options
        first = not np.isfinite(tally.start[job])
        progress.longest_wait[job] = max(progress.longest_wait[job], now - progress.last_held[job])
        progress.held_since[job] = now
        progress.since[job] = now + (options.start_cost_s if first else options.restart_cost_s)
        progress.rate[job], progress.speed[job] = 0.0, 0.0
        if first:
            tally.start[job] = now
        tally.saved[job] = progress.done[job]
        tally.span_start[job] = now
        note_reason(tally, job, PLACED, now)

    def arrive_from_move(self, job: int, now: float) -> None:
        """A task goes on elsewhere once it has moved, and what is left of its start is still to come."""
        progress = self._progress
        progress.since[job] = max(progress.since[job], now) + self._options.migration_cost_s
        self.tally.moves[job] += 1
        self.tally.saved[job] = progress.done[job]

    def go_on(self, job: int, speed: float, now: float) -> None:
        """From now on, or from the end of its start, a task works at this speed."""
        progress, tally = self._progress, self.tally
        if speed == progress.speed[job]:
            return
        begins = max(float(progress.since[job]), now)
        self.cut(job, now, RESIZED)
        progress.since[job] = begins
        progress.speed[job] = speed
        progress.rate[job] = self._pace * speed / self._jobs.iteration_s[job]
        left = float(tally.work[job] - progress.done[job])
        tally.finish_at[job] = begins + left / progress.rate[job] if speed > 0 else math.inf

    def cut(self, job: int, now: float, how: int) -> None:
        """Close a task's span and bring its line up to date; from now on it does nothing."""
        progress, tally, books = self._progress, self.tally, self._ledger.books
        self._keep_checkpoint(job, now)
        line = int(books.first_line[job])
        amounts = books.line_amounts[line].tolist()
        start, gpu = float(tally.span_start[job]), int(books.line_gpu[line])
        self.recorder.span(job, start, now, gpu, amounts, float(progress.speed[job]), how)
        progress.done[job] = self.done(job, now)
        progress.since[job] = max(float(progress.since[job]), now)
        progress.rate[job] = progress.speed[job] = 0.0
        tally.span_start[job] = now
        tally.finish_at[job] = math.inf

    def _keep_checkpoint(self, job: int, now: float) -> None:
        """Note the work done at the last checkpoint, if it lies on the line that ends now."""
        every, began = self._options.checkpoint_every_s, float(self._progress.held_since[job])
        at = began + math.floor((now - began) / every) * every
        if at >= self._progress.since[job]:
            self.tally.saved[job] = self.done(job, at)

    def stop(self, job: int, now: float, how: int) -> None:
        """A task leaves its GPU."""
        progress, tally = self._progress, self.tally
        self.cut(job, now, how)
        if how == MOVED:
            return
        progress.held_s[job] += now - progress.held_since[job]
        progress.held_since[job] = math.inf
        progress.last_held[job] = now
        progress.since[job] = now
        progress.speed[job] = self._jobs.best_speed[job]
        if how == FINISHED:
            progress.done[job] = tally.work[job]
            tally.finish[job] = now
            return
        note_reason(tally, job, ROUND, now)
        if how == FAILED:
            progress.done[job] = tally.saved[job]
            tally.restarts[job] += 1
        if how == PREEMPTED:
            tally.preemptions[job] += 1
