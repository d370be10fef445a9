"""Who gets which GPUs: kept places for those who run and are admitted again, and places for those who start.

All allocations share this. Whoever runs stays where it is: a move costs a restart in any real cluster.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Bytes, Floats, Ints, Small
from gpuyard.core.books import DEMANDS, NOTHING, SLACK, Books
from gpuyard.core.grants import WHOLE
from gpuyard.core.kernel import Boxed, inner, kernel
from gpuyard.policies.allocate.consolidation import Choices, consolidate
from gpuyard.policies.allocate.counting import (
    OUT,
    STAYS,
    TypeSpeeds,
    admit,
    next_type,
    pools,
    type_amounts,
    used_by_leavers,
)
from gpuyard.policies.allocate.faster_types import free_by_type, move_to_faster_types
from gpuyard.policies.arrange import arrange
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.placement.choosing import Draft, assign, open_draft, place, release, write
from gpuyard.policies.placement.ranking import MANY, Ranking, best_node, note_changes, open_ranking
from gpuyard.policies.plan import FRAGMENTS, PLACED, RESOURCES
from gpuyard.policies.tables import Tables


class Placements(NamedTuple):
    """The outcome: who is to go where, who must stop, and why the others wait."""

    jobs: Ints  # those who start or move
    first: Ints
    gpu_ids: Small
    stopped: Ints
    reasons: Bytes
    draft: Draft


@kernel
def _largest_first(jobs: Jobs, order: Ints, new: Ints) -> Ints:
    """Sort positions by GPUs, then CPU and memory demand, descending (Synergy, OSDI'22, section 4.2); equals stay."""
    bulk = np.empty(len(new), dtype=np.int64)
    for n in range(len(new)):
        bulk[n] = jobs.bulk[jobs.like[order[new[n]]]]
    largest: Ints = new[arrange(new, bulk, np.zeros(len(new)))]
    return largest


@inner
def _old_place_is_free(draft: Draft, jobs: Jobs, books: Books, job: int, required: Floats) -> bool:
    """Whether a job that lost its place in this very round can have it back."""
    first, wide = books.first_line[job], books.lines[job]
    for i in range(first, first + wide):
        gpu = books.line_gpu[i]
        node = books.gpu_node[gpu]
        if draft.gpu_free[gpu] < books.part[job] or books.up[node] == 0:
            return False
        if len(required):
            together = 0
            for k in range(first, first + wide):
                together += books.gpu_node[books.line_gpu[k]] == node
            for r in range(DEMANDS):
                if required[job, jobs.node_kind[node], r] * together > draft.free[node, r] + SLACK:
                    return False
    return True


@kernel
def admit_and_place(
    tables: Boxed[Tables], order: Ints, quotas: Ints, mode: int, required: Floats, speeds: TypeSpeeds, by_size: bool,
    move_cost_s: float, now: float,
) -> Placements:  # fmt: skip
    """Admit and place. `required` (job x kind x DEMANDS, per GPU) must be free beside the GPUs; if empty, nothing."""
    jobs, books, progress = tables.value.jobs, tables.value.books, tables.value.progress
    reasons = np.empty(len(order), dtype=np.int8)
    target = np.empty(len(order), dtype=np.int64)
    met = np.empty(len(order), dtype=np.int64)
    pool = pools(jobs, books, True)
    missing = pools(jobs, books, False).sum() - pool.sum()
    used = used_by_leavers(jobs, books, quotas)
    amounts = type_amounts(jobs, books, len(pool))
    home = np.empty(0, dtype=np.int64)
    arrivals, listed = admit(
        jobs, books, order, quotas, pool, missing, used, reasons, target, met, speeds, amounts, home
    )
    met = met[:listed]
    draft = open_draft(books)
    new = np.empty(arrivals, dtype=np.int64)
    width = _sort_out(draft, jobs, books, order, met, target, new)
    if by_size:
        new = _largest_first(jobs, order, new)
    room = draft.left[0] // min(jobs.smallest[0], WHOLE) + width
    rearrange = jobs.widest[0] > 1 and len(required) == 0 and draft.dirty.any()
    if rearrange:
        room += 2 * len(books.gpu_free)
    upgrade = len(pool) > 1 and len(required) == 0 and draft.dirty.any()
    if upgrade:
        room += 2 * books.busy[0] * jobs.widest[0]  # who moves, and who gets what they leave
    choices = Choices(
        np.empty(room, dtype=np.int32), np.full(len(order), -1, dtype=np.int64),
        np.empty(books.busy[0], dtype=np.int64), np.zeros(1, dtype=np.int64),
    )  # fmt: skip
    ranked = len(required) == 0 and len(new) >= MANY and bool(draft.whole_free.any())
    ranking = open_ranking(jobs, draft, width if ranked else 0)
    filled = not _place_new(draft, jobs, books, order, new, target, mode, required, ranked, ranking, choices, reasons)
    if filled:
        used = used_by_leavers(jobs, books, quotas)
        _fill(draft, jobs, books, order, quotas, used, mode, required, speeds, choices, reasons)
        met = np.arange(len(order))
    if upgrade:
        free = free_by_type(draft, jobs, books)
        moved = move_to_faster_types(
            draft, jobs, books, progress, order, met, reasons, choices, free, mode, required, move_cost_s, now
        )
        if moved:  # what they leave is for those who wait
            filled = True
            used = used_by_leavers(jobs, books, quotas)
            _fill(draft, jobs, books, order, quotas, used, mode, required, speeds, choices, reasons)
            met = np.arange(len(order))
    if filled and len(pool) > 1:
        _say_why(draft, jobs, books, order, quotas, missing, speeds, choices, reasons, len(required) > 0)
    if rearrange:
        for i in met:
            if books.slot[order[i]] >= 0:
                choices.where[books.slot[order[i]]] = i
        consolidate(
            draft, jobs, books, progress, order, met, reasons, choices, mode, required, speeds, move_cost_s, now
        )
    return _collect(draft, jobs, books, order, met, choices, reasons)


@inner
def _sort_out(draft: Draft, jobs: Jobs, books: Books, order: Ints, met: Ints, target: Ints, new: Ints) -> int:
    """Take those who do not stay off the draft and list those to be placed; returns how many GPUs these touch."""
    width, count = 0, 0
    for m in range(len(met)):
        i = met[m]
        if target[i] == STAYS:
            continue
        job = order[i]
        if books.state[job] != NOTHING:
            release(draft, jobs, books, job)
        if target[i] != OUT:
            new[count] = i
            count += 1
            width += jobs.gpus[jobs.like[job]]
    return width


@inner
def _place_new(
    draft: Draft, jobs: Jobs, books: Books, order: Ints, new: Ints, target: Ints, mode: int, required: Floats,
    ranked: bool, ranking: Ranking, choices: Choices, reasons: Bytes,
) -> bool:  # fmt: skip
    """Place the admitted; False when somebody found no place."""
    all_placed = True
    for n in range(len(new)):
        i = new[n]
        job = order[i]
        at = choices.end[0]
        node = -1
        if ranked and jobs.part[jobs.like[job]] == WHOLE:
            node = best_node(ranking, draft, jobs, books, job, target[i], mode)
        if node >= 0:
            write(draft, books, node, jobs.gpus[jobs.like[job]], choices.gpu_ids, at)
        if node >= 0 or place(draft, jobs, books, job, 1 << target[i], mode, required, choices.gpu_ids, at):
            _note(draft, jobs, books, job, i, required, choices)
            reasons[i] = PLACED
            if ranked:
                note_changes(ranking, draft, books, choices.gpu_ids, at, choices.end[0])
        else:
            reasons[i] = RESOURCES if len(required) else FRAGMENTS
            all_placed = False
    return all_placed


@inner
def _note(draft: Draft, jobs: Jobs, books: Books, job: int, i: int, required: Floats, choices: Choices) -> None:
    """Make the GPUs just written down a job's own."""
    assign(draft, jobs, books, job, choices.gpu_ids, choices.end[0], required)
    choices.at[i] = choices.end[0]
    choices.end[0] += jobs.gpus[jobs.like[job]]


@inner
def _fill(
    draft: Draft, jobs: Jobs, books: Books, order: Ints, quotas: Ints, used: Ints, mode: int, required: Floats,
    speeds: TypeSpeeds, choices: Choices, reasons: Bytes,
) -> None:  # fmt: skip
    """Offer what failed jobs left to the others, in order; one that just lost its place gets it back if it can."""
    for i in range(len(order)):
        if reasons[i] == PLACED and len(quotas):
            used[jobs.tenant[order[i]]] += jobs.need[order[i]]
    for i in range(len(order)):
        job = order[i]
        need = jobs.need[job]
        if reasons[i] == PLACED or need > draft.left[0]:
            continue
        if len(quotas) and used[jobs.tenant[job]] + need > quotas[jobs.tenant[job]]:
            continue
        found = False
        if books.slot[job] >= 0 and _old_place_is_free(draft, jobs, books, job, required):
            for k in range(books.lines[job]):
                choices.gpu_ids[choices.end[0] + k] = books.line_gpu[books.first_line[job] + k]
            found = True
        else:
            tried = 0
            t = next_type(jobs, speeds, job, tried)
            while t >= 0 and not found:
                found = place(draft, jobs, books, job, 1 << t, mode, required, choices.gpu_ids, choices.end[0])
                tried |= 1 << t
                t = next_type(jobs, speeds, job, tried)
        if found:
            _note(draft, jobs, books, job, i, required, choices)
            reasons[i] = PLACED
            if len(quotas):
                used[jobs.tenant[job]] += need
        else:
            reasons[i] = RESOURCES if len(required) else FRAGMENTS


@kernel
def _say_why(
    draft: Draft, jobs: Jobs, books: Books, order: Ints, quotas: Ints, missing: int, speeds: TypeSpeeds,
    choices: Choices, reasons: Bytes, by_demand: bool,
) -> None:  # fmt: skip
    """Say why the others wait by the types on which jobs are now, not by those that they were admitted to.

    So it is what the next decision will say, if nothing happens until then.
    """
    home = np.full(len(order), OUT)
    for i in range(len(order)):
        if reasons[i] == PLACED:
            at = choices.at[i]
            gpu = choices.gpu_ids[at] if at >= 0 else books.line_gpu[books.first_line[order[i]]]
            home[i] = jobs.node_type[books.gpu_node[gpu]]
    pool, used = pools(jobs, books, True), used_by_leavers(jobs, books, quotas)
    amounts = type_amounts(jobs, books, len(pool))
    why, target, met = np.empty_like(reasons), np.empty_like(home), np.empty_like(home)
    arrivals, _ = admit(jobs, books, order, quotas, pool, missing, used, why, target, met, speeds, amounts, home)
    for i in range(len(order)):
        if reasons[i] == PLACED:
            continue
        if target[i] != OUT:
            reasons[i] = RESOURCES if by_demand else FRAGMENTS
        elif arrivals == 0 or jobs.need[order[i]] > draft.left[0]:
            reasons[i] = why[i]


@kernel
def _collect(
    draft: Draft, jobs: Jobs, books: Books, order: Ints, met: Ints, choices: Choices, reasons: Bytes
) -> Placements:
    placed, width, stops = 0, 0, 0
    for i in met:
        if choices.at[i] >= 0:
            placed += 1
            width += jobs.gpus[jobs.like[order[i]]]
        elif reasons[i] != PLACED and books.state[order[i]] != NOTHING:
            stops += 1
    chosen = np.empty(placed, dtype=np.int64)
    first = np.empty(placed + 1, dtype=np.int64)
    gpu_ids = np.empty(width, dtype=np.int32)
    stopped = np.empty(stops, dtype=np.int64)
    placed, width, stops = 0, 0, 0
    for i in met:
        if choices.at[i] >= 0:
            wide = jobs.gpus[jobs.like[order[i]]]
            chosen[placed] = order[i]
            first[placed] = width
            for k in range(wide):
                gpu_ids[width + k] = choices.gpu_ids[choices.at[i] + k]
            width += wide
            placed += 1
        elif reasons[i] != PLACED and books.state[order[i]] != NOTHING:
            stopped[stops] = order[i]
            stops += 1
    first[placed] = width
    return Placements(chosen, first, gpu_ids, stopped, reasons, draft)
