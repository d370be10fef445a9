"""The original's placement routines and its tune, on a cluster that starts each round empty."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Bytes, Floats, Ints
from gpuyard.core.books import Books
from gpuyard.core.grants import WHOLE
from gpuyard.core.kernel import Boxed, inner, kernel
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.plan import GPUS, PLACED, QUOTA, RESOURCES, Plan
from gpuyard.policies.tables import Tables

FAIR, GREEDY, TUNE, UNRESERVED = range(4)
"""How much a job gets: its share, its demand, tuned, or GPUs alone (opt, whose jobs reserve nothing else)."""


class PublishedRound(NamedTuple):
    """Who is where so far in this round."""

    free: Floats  # node x RESOURCES
    gpus: Ints  # node -> free GPUs
    ranked: Ints  # nodes, by _rank()
    jobs: Ints
    gpus_at: Ints  # job's place x node -> GPUs there, for the nodes listed in `at`
    at: Ints
    nodes: Ints  # job's place -> how many nodes it spans
    amounts: Floats  # job's place x RESOURCES, per GPU
    speed: Floats
    placed: Ints  # one number


@kernel
def _new_round(books: Books, order: Ints) -> PublishedRound:
    free = books.capacity.copy()
    gpus = books.node_gpus.copy()
    for node in range(len(gpus)):
        if books.up[node] == 0:
            free[node] = 0.0
            gpus[node] = 0
    most = min(len(order), gpus.sum())
    width = 1
    for job in order:
        width = max(width, books.lines[job])
    width = min(width, len(gpus))
    return PublishedRound(
        free, gpus, np.arange(len(gpus)), np.empty(most, np.int64), np.zeros((most, width), np.int64),
        np.zeros((most, width), np.int64), np.zeros(most, np.int64), np.zeros((most, 4)), np.ones(most),
        np.zeros(1, np.int64),
    )  # fmt: skip


@inner
def _grab(draft: PublishedRound, node: int, most: int, need: Floats) -> int:
    """How many GPUs of a node fit, taking them one by one."""
    most = min(most, draft.gpus[node])
    for r in range(4):
        left = draft.free[node, r]
        got = 0
        while got < most and left >= need[r]:
            left -= need[r]
            got += 1
        most = got
    return most


@inner
def _rank(draft: PublishedRound) -> None:
    """Sort the servers by (fewest free GPUs, id); they nearly are, from the last time."""
    for k in range(1, len(draft.ranked)):
        node = draft.ranked[k]
        at = k
        while at > 0 and _fuller(draft, node, draft.ranked[at - 1]):
            draft.ranked[at] = draft.ranked[at - 1]
            at -= 1
        draft.ranked[at] = node


@inner
def _fuller(draft: PublishedRound, a: int, b: int) -> bool:
    return bool(draft.gpus[a] < draft.gpus[b] or (draft.gpus[a] == draft.gpus[b] and a < b))


@inner
def _gpu_by_gpu(draft: PublishedRound, place: int, wide: int, need: Floats, fullest_first: bool) -> bool:
    """Collect GPUs server by server, as many from each as fit."""
    if fullest_first:
        _rank(draft)
    spans, got = 0, 0
    for k in range(len(draft.gpus)):
        node = draft.ranked[k] if fullest_first else k
        if draft.gpus[node] == 0:
            continue
        here = _grab(draft, node, wide - got, need)
        if here:
            draft.at[place, spans], draft.gpus_at[place, spans] = node, here
            spans += 1
            got += here
            if got == wide:
                draft.nodes[place] = spans
                return True
    return False


@inner
def _one_server(draft: PublishedRound, place: int, wide: int, need: Floats) -> bool:
    """Take the fullest server that covers the whole job."""
    best = -1
    for node in range(len(draft.gpus)):
        if draft.gpus[node] >= wide and (best < 0 or draft.gpus[node] < draft.gpus[best]):
            covered = True
            for r in range(4):
                covered = covered and draft.free[node, r] >= need[r] * wide
            best = node if covered else best
    if best >= 0:
        draft.at[place, 0], draft.gpus_at[place, 0], draft.nodes[place] = best, wide, 1
    return best >= 0


@inner
def _try(draft: PublishedRound, job: int, wide: int, need: Floats, speed: float, consolidating: bool) -> bool:
    """Place a job with these amounts per GPU and take them."""
    place = draft.placed[0]
    found = consolidating and wide > 1 and _one_server(draft, place, wide, need)
    found = found or _gpu_by_gpu(draft, place, wide, need, consolidating)
    if not found:
        return False
    draft.jobs[place] = job
    draft.speed[place] = speed
    for r in range(4):
        draft.amounts[place, r] = need[r]
    _book(draft, place, -1)
    for k in range(draft.nodes[place]):
        draft.gpus[draft.at[place, k]] -= draft.gpus_at[place, k]
    draft.placed[0] += 1
    return True


@inner
def _book(draft: PublishedRound, place: int, sign: int) -> None:
    """Take (-1) or return (+1) what a placed job has beside its GPUs."""
    for k in range(draft.nodes[place]):
        for r in range(4):
            draft.free[draft.at[place, k], r] += sign * draft.amounts[place, r] * draft.gpus_at[place, k]


@inner
def _reclaim_from(draft: PublishedRound, wide: int) -> int:
    """The one server that has enough free GPUs for a wide job; -1: the fullest servers together."""
    for node in range(len(draft.gpus)):
        if wide > 1 and draft.gpus[node] >= wide:
            return node
    return -1


@kernel
def _victims(draft: PublishedRound, node: int, need: Floats, share: Floats, chosen: Ints) -> int:
    """Jobs to cut back on a server until the need is met: on fewest servers first, then by CPU and memory per GPU."""
    here = np.empty(draft.placed[0], dtype=np.int64)
    gpus_here = np.empty(draft.placed[0], dtype=np.int64)
    count = 0
    for place in range(draft.placed[0]):
        for k in range(draft.nodes[place]):
            if draft.at[place, k] == node:
                at = count
                while at > 0 and _weaker(draft, place, here[at - 1]):
                    here[at], gpus_here[at] = here[at - 1], gpus_here[at - 1]
                    at -= 1
                here[at], gpus_here[at] = place, draft.gpus_at[place, k]
                count += 1
    found = 0
    for i in range(count):
        remains = False
        for r in range(4):
            excess = max(0.0, draft.amounts[here[i], r] * gpus_here[i] - share[r] * gpus_here[i])
            need[r] = max(0.0, need[r] - excess)
            remains = remains or need[r] > 0.0
        chosen[found] = here[i]
        found += 1
        if not remains:
            break
    return found


@inner
def _weaker(draft: PublishedRound, a: int, b: int) -> bool:
    if draft.nodes[a] != draft.nodes[b]:
        return bool(draft.nodes[a] < draft.nodes[b])
    for r in range(2):
        if draft.amounts[a, r] != draft.amounts[b, r]:
            return bool(draft.amounts[a, r] > draft.amounts[b, r])
    return False


@inner
def _exceeds_share(jobs: Jobs, job: int, wide: int, share: Floats) -> bool:
    for r in range(3):
        if jobs.demand[job, r] > share[r] * wide:
            return True
    return False


@kernel
def _reclaim(draft: PublishedRound, jobs: Jobs, books: Books, wide: int, need: Floats, share: Floats) -> None:
    """Cut neighbours back to their share until the job fits on the servers that will take it."""
    single = _reclaim_from(draft, wide)
    chosen = np.empty(draft.placed[0], dtype=np.int64)
    left = wide
    _rank(draft)
    for k in range(len(draft.ranked)):
        node = single if single >= 0 else draft.ranked[k]
        here = min(draft.gpus[node], left)
        left -= here
        missing = np.maximum(0.0, need * here - draft.free[node])
        if here > 0 and missing.any():
            for i in range(_victims(draft, node, missing, share, chosen)):
                _cut(draft, jobs, books, chosen[i], share)


@inner
def _cut(draft: PublishedRound, jobs: Jobs, books: Books, place: int, share: Floats) -> None:
    """Bring a placed job back to its share, or to its demand if that is less, and to the share's speed in any case."""
    job = draft.jobs[place]
    wide = books.lines[job]
    above = _exceeds_share(jobs, job, wide, share)
    _book(draft, place, +1)
    for r in range(3):
        draft.amounts[place, r] = share[r] if above else jobs.demand[job, r] / wide
    draft.speed[place] = 1.0
    _book(draft, place, -1)


@inner
def _ask(jobs: Jobs, job: int, wide: int, need: Floats) -> None:
    """Write a job's demand per GPU."""
    for r in range(3):
        need[r] = jobs.demand[job, r] / wide
    need[3] = 0.0


@inner
def _tune(
    draft: PublishedRound, jobs: Jobs, books: Books, job: int, share: Floats, consolidating: bool, need: Floats
) -> bool:
    """Try the demand, then the share if the demand is above it; leaves in `need` what the job settles for."""
    wide = books.lines[job]
    _ask(jobs, job, wide, need)
    if _try(draft, job, wide, need, jobs.best_speed[job], consolidating):
        return True
    if not _exceeds_share(jobs, job, wide, share):
        return False
    for r in range(3):
        need[r] = share[r]
    return _try(draft, job, wide, need, 1.0, consolidating)


@kernel
def pack(
    tables: Boxed[Tables], order: Ints, quotas: Ints, mechanism: int, consolidating: bool, fixed_set: bool,
    speeds: Floats,
) -> Plan:  # fmt: skip
    """Place jobs in order on an empty cluster. fixed_set: admit by GPU count first and let nobody fill gaps later."""
    jobs, books = tables.value.jobs, tables.value.books
    reasons = np.full(len(order), GPUS, dtype=np.int8)
    share = jobs.share[0].copy()
    draft = _new_round(books, order)
    left = draft.gpus.sum()
    positions = _admitted(jobs, books, order, quotas, left) if fixed_set else np.arange(len(order))
    if fixed_set and mechanism == TUNE:
        widths = np.empty(len(positions), dtype=np.int64)
        for i in range(len(positions)):
            widths[i] = -books.lines[order[positions[i]]]
        positions = positions[np.argsort(widths, kind="mergesort")]
    used = np.zeros(len(quotas), dtype=np.int64)
    need = np.zeros(4)
    for i in positions:
        job = order[i]
        wide = books.lines[job]
        if wide > left:
            if left == 0:
                break
            continue
        if len(quotas) and used[jobs.tenant[job]] + wide * WHOLE > quotas[jobs.tenant[job]]:
            reasons[i] = QUOTA
            continue
        if mechanism == TUNE:
            done = _tune(draft, jobs, books, job, share, consolidating, need)
            if not done:
                speed = 1.0 if _exceeds_share(jobs, job, wide, share) else jobs.best_speed[job]
                _reclaim(draft, jobs, books, wide, need, share)
                done = _try(draft, job, wide, need, speed, consolidating)
        elif mechanism == GREEDY:
            _ask(jobs, job, wide, need)
            done = _try(draft, job, wide, need, jobs.best_speed[job], consolidating)
        elif mechanism == FAIR:
            done = _try(draft, job, wide, share, 1.0, consolidating)
        else:
            done = _try(draft, job, wide, need, speeds[i], consolidating)
        reasons[i] = PLACED if done else RESOURCES
        if done:
            left -= wide
            if len(quotas):
                used[jobs.tenant[job]] += wide * WHOLE
    return _plan(draft, books, order, reasons)


@kernel
def _admitted(jobs: Jobs, books: Books, order: Ints, quotas: Ints, left: int) -> Ints:
    chosen = np.empty(len(order), dtype=np.int64)
    used = np.zeros(len(quotas), dtype=np.int64)
    count = 0
    for i in range(len(order)):
        wide = books.lines[order[i]]
        tenant = jobs.tenant[order[i]]
        if wide <= left and (len(quotas) == 0 or used[tenant] + wide * WHOLE <= quotas[tenant]):
            chosen[count] = i
            count += 1
            left -= wide
            if len(quotas):
                used[tenant] += wide * WHOLE
    return chosen[:count]


@kernel
def _plan(draft: PublishedRound, books: Books, order: Ints, reasons: Bytes) -> Plan:
    """Number the GPUs: each server's are handed out in order."""
    count = draft.placed[0]
    first = np.zeros(count + 1, dtype=np.int64)
    for place in range(count):
        first[place + 1] = first[place] + books.lines[draft.jobs[place]]
    gpu_ids = np.empty(first[count], dtype=np.int32)
    following = books.first_gpu.copy()
    for place in range(count):
        at = first[place]
        for k in range(draft.nodes[place]):
            for _ in range(draft.gpus_at[place, k]):
                gpu_ids[at] = following[draft.at[place, k]]
                following[draft.at[place, k]] += 1
                at += 1
    stopped = np.empty(books.busy[0], dtype=np.int64)
    stops = 0
    for i in range(len(order)):
        if reasons[i] != PLACED and books.slot[order[i]] >= 0:
            stopped[stops] = order[i]
            stops += 1
    return Plan(
        draft.jobs[:count], first, gpu_ids, draft.amounts[:count], stopped[:stops], reasons, draft.speed[:count]
    )
