"""Bringing jobs that span nodes together on one, by moving single-GPU jobs out of the way.

A spread job pays for its network traffic all its life; a single-GPU job that changes places pays one restart. A move is
made only when the spread job gains more than all the restarts cost.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuyard.core.arrays import Bytes, Floats, Ints, Small
from gpuyard.core.books import DEMANDS, RELEASING, SLACK, Books
from gpuyard.core.grants import WHOLE
from gpuyard.core.kernel import inner
from gpuyard.policies.allocate.counting import TypeSpeeds
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.placement.choosing import Draft, assign, place, return_amounts, withdraw
from gpuyard.policies.plan import PLACED
from gpuyard.policies.tables import JobProgress


class Choices(NamedTuple):
    """Who is to go where: GPUs written one after the other."""

    gpu_ids: Small
    at: Ints  # position in the order -> where its GPUs are noted; -1: where it is already
    where: Ints  # holder -> its position in the order
    end: Ints  # one number


@inner
def _gpu_of(books: Books, choices: Choices, order: Ints, i: int, k: int) -> int:
    """The k-th GPU of a job, as the draft has it."""
    if choices.at[i] >= 0:
        return int(choices.gpu_ids[choices.at[i] + k])
    return int(books.line_gpu[books.first_line[order[i]] + k])


@inner
def _spans(books: Books, choices: Choices, order: Ints, i: int) -> bool:
    home = books.gpu_node[_gpu_of(books, choices, order, i, 0)]
    for k in range(1, books.lines[order[i]]):
        if books.gpu_node[_gpu_of(books, choices, order, i, k)] != home:
            return True
    return False


@inner
def _movable(
    draft: Draft, books: Books, progress: JobProgress, choices: Choices, reasons: Bytes, gpu: int, now: float
) -> int:
    """The position of the single-GPU job that has this GPU and has not been moved yet; -1 if there is none."""
    entry = books.head[gpu]
    if entry < 0 or draft.gpu_free[gpu] > 0:
        return -1
    job = books.line_holder[entry]
    if books.state[job] == RELEASING:
        return -1
    i = choices.where[books.slot[job]]
    whole = books.lines[job] == 1 and books.part[job] == WHOLE
    # One that has not got over its last move is left alone, or jobs could be sent around for ever.
    if whole and reasons[i] == PLACED and choices.at[i] < 0 and progress.since[job] <= now:
        return int(i)
    return -1


@inner
def _cheapest_node(
    draft: Draft, jobs: Jobs, books: Books, progress: JobProgress, choices: Choices, reasons: Bytes, wide: int,
    kind: int, now: float,
) -> int:  # fmt: skip
    """The node of this GPU type that can hold the whole job after the fewest moves; -1 if none can."""
    best, best_moves = -1, wide + 1
    for node in range(len(books.up)):
        moves = wide - draft.whole_free[node]
        if jobs.node_type[node] != kind or moves >= best_moves or books.node_gpus[node] < wide or not books.up[node]:
            continue
        movable = 0
        for gpu in range(books.first_gpu[node], books.first_gpu[node + 1]):
            movable += _movable(draft, books, progress, choices, reasons, gpu, now) >= 0
        if movable >= moves:
            best, best_moves = node, max(moves, 0)
    return best


@inner
def _move_away(
    draft: Draft, jobs: Jobs, books: Books, progress: JobProgress, choices: Choices, order: Ints, reasons: Bytes,
    node: int, wide: int, now: float,
) -> int:  # fmt: skip
    """Withdraw single-GPU jobs until the node has enough free GPUs; they are marked, and returned as a count."""
    moved = 0
    for gpu in range(books.first_gpu[node], books.first_gpu[node + 1]):
        i = _movable(draft, books, progress, choices, reasons, gpu, now)
        if draft.whole_free[node] < wide and i >= 0:
            choices.gpu_ids[choices.end[0]] = gpu
            withdraw(draft, jobs, books, order[i], choices.gpu_ids, choices.end[0])
            return_amounts(draft, jobs, books, order[i])
            choices.at[i] = choices.end[0]
            choices.end[0] += 1
            moved += 1
    return moved


@inner
def _all_get_their_demand(draft: Draft, books: Books, choices: Choices, order: Ints, i: int) -> bool:
    """Whether each node of a job has what everybody there would like."""
    for k in range(books.lines[order[i]]):
        node = books.gpu_node[_gpu_of(books, choices, order, i, k)]
        for r in range(DEMANDS):
            if draft.demanded[node, r] > books.capacity[node, r] + SLACK:
                return False
    return True


@inner
def _spread_time_left(
    draft: Draft, jobs: Jobs, books: Books, progress: JobProgress, choices: Choices, order: Ints, i: int, most: float,
    now: float,
) -> float:  # fmt: skip
    """How long a job would still take where it is, spread, if it has the speed `most` with all that it can use.

    It gets that where nobody there lacks anything; otherwise one that runs stays as fast as it was.
    """
    job = order[i]
    done, speed = progress.done[job], most * jobs.penalty[jobs.job_class[job]]
    if books.slot[job] >= 0:
        done += progress.rate[job] * max(now - progress.since[job], 0.0)
        if not _all_get_their_demand(draft, books, choices, order, i):
            speed = progress.speed[job]
    return float((jobs.iterations[job] - done) * jobs.iteration_s[job] / speed)


@inner
def consolidate(
    draft: Draft, jobs: Jobs, books: Books, progress: JobProgress, order: Ints, met: Ints, reasons: Bytes,
    choices: Choices, mode: int, nothing_required: Floats, speeds: TypeSpeeds, move_cost_s: float, now: float,
) -> None:  # fmt: skip
    """Bring every spread job together for whom that pays, in order; `met` are positions of all who may be placed."""
    largest = 0
    for node in range(len(books.up)):
        largest = max(largest, books.node_gpus[node])
    for m in range(len(met)):
        i = met[m]
        job = order[i]
        wide = books.lines[job]
        if wide == 1 or wide > largest or reasons[i] != PLACED or not _spans(books, choices, order, i):
            continue
        kind = jobs.node_type[books.gpu_node[_gpu_of(books, choices, order, i, 0)]]
        most = speeds.most[job, kind]
        spread_s = _spread_time_left(draft, jobs, books, progress, choices, order, i, most, now)
        gain_s = (1.0 - jobs.penalty[jobs.job_class[job]]) * spread_s
        own_move = books.slot[job] >= 0
        if gain_s <= 0.0 or own_move * move_cost_s > gain_s:
            continue
        old = choices.end[0]
        for k in range(wide):
            choices.gpu_ids[old + k] = _gpu_of(books, choices, order, i, k)
        withdraw(draft, jobs, books, job, choices.gpu_ids, old)
        node = _cheapest_node(draft, jobs, books, progress, choices, reasons, wide, kind, now)
        moves = 0 if node < 0 else max(wide - draft.whole_free[node], 0) + own_move
        if node < 0 or moves * move_cost_s > gain_s:
            assign(draft, jobs, books, job, choices.gpu_ids, old, nothing_required)
            continue
        if choices.at[i] < 0:
            return_amounts(draft, jobs, books, job)
        choices.end[0] += wide
        first = choices.end[0]
        moved = _move_away(draft, jobs, books, progress, choices, order, reasons, node, wide, now)
        at = old
        for gpu in range(books.first_gpu[node], books.first_gpu[node + 1]):
            if at < old + wide and draft.gpu_free[gpu] == WHOLE:
                choices.gpu_ids[at] = gpu
                at += 1
        assign(draft, jobs, books, job, choices.gpu_ids, old, nothing_required)
        choices.at[i] = old
        for spot in range(first, first + moved):
            other = books.line_holder[books.head[choices.gpu_ids[spot]]]
            place(draft, jobs, books, other, 1 << kind, mode, nothing_required, choices.gpu_ids, spot)
            assign(draft, jobs, books, other, choices.gpu_ids, spot, nothing_required)
