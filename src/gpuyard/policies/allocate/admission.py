"""Who gets GPUs, and which: admission in order, kept places for those who run, and places for those who start.

All allocations share this. Jobs are admitted by GPU count, later jobs filling what earlier ones cannot use. Whoever
runs and is admitted again stays where it is: a move costs a restart in any real cluster.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Bytes, Floats, Ints, Small
from gpuyard.core.books import DEMANDS, RELEASING, SLACK, Books
from gpuyard.core.grants import WHOLE
from gpuyard.core.kernel import Boxed, inner, kernel
from gpuyard.policies.allocate.consolidation import Choices, consolidate
from gpuyard.policies.allocate.faster_types import free_by_type, move_to_faster_types
from gpuyard.policies.arrange import arrange
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.placement.choosing import Draft, assign, open_draft, place, release, write
from gpuyard.policies.placement.ranking import MANY, Ranking, best_node, note_changes, open_ranking
from gpuyard.policies.plan import FRAGMENTS, GPUS, NODES, PLACED, QUOTA, RESOURCES
from gpuyard.policies.tables import Tables


class Placements(NamedTuple):
    """The outcome: who is to go where, who must stop, and why the others wait."""

    jobs: Ints  # those who start or move
    first: Ints
    gpu_ids: Small
    stopped: Ints
    reasons: Bytes
    draft: Draft


STAYS, OUT = -2, -1
"""Not a GPU type to go to: the job stays where it is, or is not admitted."""


@inner
def _choose_type(jobs: Jobs, type_speed: Floats, job: int, pool: Ints, need: int) -> int:
    """The type on which the job is fastest among those with enough GPUs left; of equals, the one with most left."""
    best = -1
    for t in range(len(pool)):
        if not jobs.types[job] >> t & 1 or pool[t] < need:
            continue
        gain = 1.0 if best < 0 else type_speed[job, t] - type_speed[job, best]
        if gain > 0.0 or (gain == 0.0 and pool[t] > pool[best]):
            best = t
    return best


@inner
def _next_type(jobs: Jobs, type_speed: Floats, job: int, tried: int) -> int:
    """The type on which the job is fastest among those not tried yet; -1 after the last."""
    best = -1
    for t in range(type_speed.shape[1]):
        left = jobs.types[job] >> t & 1 and not tried >> t & 1
        if left and (best < 0 or type_speed[job, t] > type_speed[job, best]):
            best = t
    return best


@kernel
def _pools(jobs: Jobs, books: Books, in_service: bool) -> Ints:
    """Thousandths of GPUs of each type that may be handed out: all but those of holders on the way out."""
    pool = np.zeros(max(jobs.node_type.max() + 1, 1), dtype=np.int64)
    for node in range(len(books.up)):
        if jobs.node_type[node] >= 0 and (books.up[node] or not in_service):
            pool[jobs.node_type[node]] += books.node_gpus[node] * WHOLE
    for k in range(books.busy[0]):
        holder = books.holders[k]
        if books.state[holder] == RELEASING:
            for line in range(books.first_line[holder], books.first_line[holder] + books.lines[holder]):
                pool[jobs.node_type[books.line_node[line]]] -= books.line_part[line]
    return pool


@kernel
def _used_by_leavers(jobs: Jobs, books: Books, quotas: Ints) -> Ints:
    """Thousandths of GPUs that each tenant holds through jobs on the way out; empty when nobody has a quota."""
    used = np.zeros(len(quotas), dtype=np.int64)
    if len(quotas):
        for k in range(books.busy[0]):
            if books.state[books.holders[k]] == RELEASING:
                used[jobs.tenant[books.holders[k]]] += jobs.need[books.holders[k]]
    return used


@inner
def _admit(
    jobs: Jobs, books: Books, order: Ints, quotas: Ints, pool: Ints, missing: int, used: Ints, reasons: Bytes,
    target: Ints, met: Ints, type_speed: Floats,
) -> tuple[int, int]:  # fmt: skip
    """Choose by GPU count alone: for each job a GPU type to go to, STAYS or OUT.

    Returns how many are to be placed, and how many positions are listed in `met`: of all who are admitted or run.
    """
    left = pool.sum()
    one_type = len(pool) == 1
    arrivals, listed, running = 0, 0, books.busy[0]  # those on the way out are not in the order: it never gets to 0
    for i in range(len(order)):
        reasons[i] = NODES if missing > 0 else GPUS
        if left < jobs.smallest[0] and running == 0:
            continue
        job = order[i]
        target[i] = OUT
        if books.slot[job] >= 0:
            met[listed] = i
            listed += 1
            running -= 1
        if left < jobs.smallest[0]:
            continue
        need = jobs.need[job]
        if left < need or jobs.types[job] == 0:
            continue
        if len(quotas) and used[jobs.tenant[job]] + need > quotas[jobs.tenant[job]]:
            reasons[i] = QUOTA
            continue
        kind = 0
        if books.slot[job] >= 0:
            if not one_type:
                kind = jobs.node_type[books.gpu_node[books.line_gpu[books.first_line[job]]]]
            if pool[kind] >= need:
                target[i] = STAYS
                reasons[i] = PLACED
        if target[i] == OUT:
            if not one_type:
                kind = _choose_type(jobs, type_speed, job, pool, need)
                if kind < 0:
                    continue
            target[i] = kind
            arrivals += 1
            if books.slot[job] < 0:
                met[listed] = i
                listed += 1
        pool[kind] -= need
        left -= need
        if len(quotas):
            used[jobs.tenant[job]] += need
    return arrivals, listed


@kernel
def _largest_first(jobs: Jobs, order: Ints, new: Ints) -> Ints:
    """Sort positions by GPUs, then CPU and memory demand, descending (Synergy, OSDI'22, section 4.2); equals stay."""
    bulk = np.empty(len(new), dtype=np.int64)
    for n in range(len(new)):
        bulk[n] = jobs.bulk[order[new[n]]]
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
    tables: Boxed[Tables], order: Ints, quotas: Ints, mode: int, required: Floats, type_speed: Floats, by_size: bool,
    move_cost_s: float, now: float,
) -> Placements:  # fmt: skip
    """Admit and place. `required` (job x kind x DEMANDS, per GPU) must be free beside the GPUs; if empty, nothing."""
    jobs, books, progress = tables.value.jobs, tables.value.books, tables.value.progress
    reasons = np.empty(len(order), dtype=np.int8)
    target = np.empty(len(order), dtype=np.int64)
    met = np.empty(len(order), dtype=np.int64)
    pool = _pools(jobs, books, True)
    missing = _pools(jobs, books, False).sum() - pool.sum()
    used = _used_by_leavers(jobs, books, quotas)
    arrivals, listed = _admit(jobs, books, order, quotas, pool, missing, used, reasons, target, met, type_speed)
    met = met[:listed]
    draft = open_draft(books)
    new = np.empty(arrivals, dtype=np.int64)
    width = _sort_out(draft, books, order, met, target, new)
    if by_size:
        new = _largest_first(jobs, order, new)
    room = draft.left[0] // min(jobs.smallest[0], WHOLE) + width
    rearrange = jobs.widest[0] > 1 and len(required) == 0 and draft.dirty.any()
    if rearrange:
        room += 2 * len(books.gpu_free)
    upgrade = len(pool) > 1 and len(required) == 0
    if upgrade:
        room += books.busy[0] * jobs.widest[0]
    choices = Choices(
        np.empty(room, dtype=np.int32), np.full(len(order), -1, dtype=np.int64),
        np.empty(books.busy[0], dtype=np.int64), np.zeros(1, dtype=np.int64),
    )  # fmt: skip
    ranked = len(required) == 0 and len(new) >= MANY and bool(draft.whole_free.any())
    ranking = open_ranking(jobs, draft, width if ranked else 0)
    if not _place_new(draft, jobs, books, order, new, target, mode, required, ranked, ranking, choices, reasons):
        used = _used_by_leavers(jobs, books, quotas)
        _fill(draft, jobs, books, order, quotas, used, mode, required, type_speed, choices, reasons)
        met = np.arange(len(order))
    if upgrade:
        free = free_by_type(draft, jobs, books)
        move_to_faster_types(
            draft, jobs, books, progress, order, met, reasons, choices, free, mode, required, move_cost_s, now
        )
    if rearrange:
        for i in met:
            if books.slot[order[i]] >= 0:
                choices.where[books.slot[order[i]]] = i
        consolidate(draft, jobs, books, progress, order, met, reasons, choices, mode, required, move_cost_s, now)
    return _collect(draft, books, order, met, choices, reasons)


@inner
def _sort_out(draft: Draft, books: Books, order: Ints, met: Ints, target: Ints, new: Ints) -> int:
    """Take those who do not stay off the draft and list those to be placed; returns how many GPUs these touch."""
    width, count = 0, 0
    for m in range(len(met)):
        i = met[m]
        if target[i] == STAYS:
            continue
        job = order[i]
        if books.slot[job] >= 0:
            release(draft, books, job)
        if target[i] != OUT:
            new[count] = i
            count += 1
            width += books.lines[job]
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
        if ranked and books.part[job] == WHOLE:
            node = best_node(ranking, draft, jobs, books, job, target[i], mode)
        if node >= 0:
            write(draft, books, node, books.lines[job], choices.gpu_ids, at)
        if node >= 0 or place(draft, jobs, books, job, 1 << target[i], mode, required, choices.gpu_ids, at):
            _note(draft, jobs, books, job, i, required, choices)
            reasons[i] = PLACED
            if ranked:
                note_changes(ranking, books, choices.gpu_ids, at, choices.end[0])
        else:
            reasons[i] = RESOURCES if len(required) else FRAGMENTS
            all_placed = False
    return all_placed


@inner
def _note(draft: Draft, jobs: Jobs, books: Books, job: int, i: int, required: Floats, choices: Choices) -> None:
    """Make the GPUs just written down a job's own."""
    assign(draft, jobs, books, job, choices.gpu_ids, choices.end[0], required)
    choices.at[i] = choices.end[0]
    choices.end[0] += books.lines[job]


@inner
def _fill(
    draft: Draft, jobs: Jobs, books: Books, order: Ints, quotas: Ints, used: Ints, mode: int, required: Floats,
    type_speed: Floats, choices: Choices, reasons: Bytes,
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
            t = _next_type(jobs, type_speed, job, tried)
            while t >= 0 and not found:
                found = place(draft, jobs, books, job, 1 << t, mode, required, choices.gpu_ids, choices.end[0])
                tried |= 1 << t
                t = _next_type(jobs, type_speed, job, tried)
        if found:
            _note(draft, jobs, books, job, i, required, choices)
            reasons[i] = PLACED
            if len(quotas):
                used[jobs.tenant[job]] += need


@kernel
def _collect(draft: Draft, books: Books, order: Ints, met: Ints, choices: Choices, reasons: Bytes) -> Placements:
    placed, width, stops = 0, 0, 0
    for i in met:
        if choices.at[i] >= 0:
            placed += 1
            width += books.lines[order[i]]
        elif reasons[i] != PLACED and books.slot[order[i]] >= 0:
            stops += 1
    jobs = np.empty(placed, dtype=np.int64)
    first = np.empty(placed + 1, dtype=np.int64)
    gpu_ids = np.empty(width, dtype=np.int32)
    stopped = np.empty(stops, dtype=np.int64)
    placed, width, stops = 0, 0, 0
    for i in met:
        if choices.at[i] >= 0:
            jobs[placed] = order[i]
            first[placed] = width
            for k in range(books.lines[order[i]]):
                gpu_ids[width + k] = choices.gpu_ids[choices.at[i] + k]
            width += books.lines[order[i]]
            placed += 1
        elif reasons[i] != PLACED and books.slot[order[i]] >= 0:
            stopped[stops] = order[i]
            stops += 1
    first[placed] = width
    return Placements(jobs, first, gpu_ids, stopped, reasons, draft)
