"""Moving jobs to a faster GPU type once it has room that nobody who waits can use."""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Bytes, Floats, Ints
from gpuyard.core.books import Books
from gpuyard.core.grants import WHOLE
from gpuyard.core.kernel import inner, kernel
from gpuyard.policies.allocate.consolidation import Choices
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.performance import neighbours_slowdown
from gpuyard.policies.placement.choosing import Draft, assign, place, release
from gpuyard.policies.plan import PLACED
from gpuyard.policies.tables import JobProgress


@kernel
def free_by_type(draft: Draft, jobs: Jobs, books: Books) -> Ints:
    """Thousandths of GPUs of each type that nobody has."""
    free = np.zeros(jobs.type_speed.shape[1], dtype=np.int64)
    for gpu in range(len(draft.gpu_free)):
        t = jobs.node_type[books.gpu_node[gpu]]
        if t >= 0 and books.up[books.gpu_node[gpu]]:
            free[t] += draft.gpu_free[gpu]
    return free


@inner
def _least_speed(jobs: Jobs, books: Books, choices: Choices, job: int, at: int) -> float:
    """The speed that a job has at least on the GPUs noted there: with its share."""
    kinds = jobs.share.shape[0]
    home = books.gpu_node[choices.gpu_ids[at]]
    speed, apart = np.inf, False
    for i in range(at, at + books.lines[job]):
        node = books.gpu_node[choices.gpu_ids[i]]
        apart = apart or node != home
        speed = min(speed, jobs.ladders[jobs.job_class[job] * kinds + jobs.node_kind[node], 0, 3])
    return float(speed * jobs.penalty[jobs.job_class[job]] if apart else speed)


@inner
def _speed_alone(jobs: Jobs, books: Books, progress: JobProgress, job: int) -> float:
    """Its speed now if it had no neighbours: nobody knows whom it would meet elsewhere, and it is not to flee them."""
    shares = len(jobs.slowdown) > 0 and books.part[job] < WHOLE
    return float(progress.speed[job] * (neighbours_slowdown(jobs, books, job) if shares else 1.0))


@inner
def _pays(
    jobs: Jobs, progress: JobProgress, job: int, now_speed: float, speed: float, move_cost_s: float, now: float
) -> bool:
    """Whether the job ends earlier at the other speed, the move included."""
    done = progress.done[job] + progress.rate[job] * max(now - progress.since[job], 0.0)
    left_s = (jobs.iterations[job] - done) * jobs.iteration_s[job]
    return bool(speed > 0.0 and move_cost_s + left_s / speed < left_s / now_speed * (1 - 1e-9))


@inner
def move_to_faster_types(
    draft: Draft, jobs: Jobs, books: Books, progress: JobProgress, order: Ints, met: Ints, reasons: Bytes,
    choices: Choices, free: Ints, mode: int, nothing_required: Floats, move_cost_s: float, now: float,
) -> bool:  # fmt: skip
    """Move each running job, in order, to the type on which its share makes it end earliest, if that pays.

    `free` is what `free_by_type` gives. Returns whether anybody moves.
    """
    moved = False
    for m in range(len(met)):
        i = met[m]
        job = order[i]
        # One that is still paying for its last start or move is left alone, or it might never work.
        if books.slot[job] < 0 or reasons[i] != PLACED or choices.at[i] >= 0 or progress.since[job] > now:
            continue
        here = jobs.node_type[books.gpu_node[books.line_gpu[books.first_line[job]]]]
        at, best, best_speed = choices.end[0], -1, 0.0
        now_speed = _speed_alone(jobs, books, progress, job)
        for t in range(len(free)):
            hopeless = t == here or free[t] < jobs.need[job] or jobs.type_speed[job, t] <= now_speed
            if hopeless or not place(draft, jobs, books, job, 1 << t, mode, nothing_required, choices.gpu_ids, at):
                continue
            speed = _least_speed(jobs, books, choices, job, at)
            if speed > best_speed and _pays(jobs, progress, job, now_speed, speed, move_cost_s, now):
                best, best_speed = t, speed
        if best < 0:
            continue
        place(draft, jobs, books, job, 1 << best, mode, nothing_required, choices.gpu_ids, at)
        release(draft, jobs, books, job)
        assign(draft, jobs, books, job, choices.gpu_ids, at, nothing_required)
        choices.at[i] = at
        choices.end[0] += books.lines[job]
        free[best] -= jobs.need[job]
        free[here] += jobs.need[job]
        moved = True
    return moved
