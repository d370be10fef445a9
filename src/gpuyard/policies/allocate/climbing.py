"""Who gets what a node has left when everybody there has its lowest step: the climbs that gain most for their cost."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Bytes, Floats, Ints, Small
from gpuyard.core.books import DEMANDS, SLACK, Books
from gpuyard.core.kernel import inner
from gpuyard.policies.jobs import Jobs


class Sharers(NamedTuple):
    """The jobs among whom nodes are divided anew: those who come, and those who are there already."""

    jobs: Ints
    like: Small  # of each, the first job of its shape
    first: Ints
    gpu_ids: Small
    spans: Bytes  # 1: the job spans nodes
    level: Ints
    amounts: Floats
    speed: Floats
    step: Ints  # the climb that would gain most for its cost, as last looked up
    gain: Floats  # by cost; 0: none fits


@inner
def climb_within_nodes(
    jobs: Jobs, books: Books, sharers: Sharers, dirty: Bytes, head: Ints, following: Ints, free: Floats
) -> None:
    """Divide what is left of each dirty node among the jobs that are on it alone."""
    for p in range(len(sharers.jobs) - 1, -1, -1):
        if not sharers.spans[p]:
            node = books.gpu_node[sharers.gpu_ids[sharers.first[p]]]
            following[p] = head[node]
            head[node] = p
    for node in range(len(head)):
        if dirty[node] and head[node] >= 0:
            _climb_on(jobs, books, sharers, node, head[node], following, free)


@inner
def _climb_on(jobs: Jobs, books: Books, sharers: Sharers, node: int, head: int, following: Ints, free: Floats) -> None:
    """Grant the one climb on this node, by any number of steps, that gains most for its cost, until none fits.

    What a climb gains changes only for the job that climbs; the others are asked again only if theirs no longer fits,
    or if something was given back.
    """
    climbed, anyone = -1, True
    while True:
        best = -1
        p = head
        while p >= 0:
            if anyone or p == climbed or (sharers.gain[p] > 0.0 and not _fits(jobs, sharers, node, p, free)):
                _look_up(jobs, books, sharers, node, p, free)
            if sharers.gain[p] > (sharers.gain[best] if best >= 0 else 0.0):
                best = p
            p = following[p]
        if best < 0:
            return
        anyone = _grant(jobs, sharers, node, best, free)
        climbed = best


@inner
def _fits(jobs: Jobs, sharers: Sharers, node: int, p: int, free: Floats) -> bool:
    """Whether the node can still grant the climb that was looked up."""
    like = sharers.like[p]
    row = jobs.job_class[like] * jobs.share.shape[0] + jobs.node_kind[node]
    for r in range(DEMANDS):
        more = (jobs.ladders[row, sharers.step[p], r] - sharers.amounts[p, r]) * jobs.gpus[like]
        if more > free[node, r] + SLACK:
            return False
    return True


@inner
def _look_up(jobs: Jobs, books: Books, sharers: Sharers, node: int, p: int, free: Floats) -> None:
    """Find the climb of one job that gains most for its cost."""
    like = sharers.like[p]
    kind = jobs.node_kind[node]
    row = jobs.job_class[like] * jobs.share.shape[0] + kind
    sharers.gain[p] = 0.0
    for step in range(sharers.level[p] + 1, jobs.top[like, kind] + 1):
        cost = 1e-9
        for r in range(DEMANDS):
            more = (jobs.ladders[row, step, r] - sharers.amounts[p, r]) * jobs.gpus[like]
            if more > free[node, r] + SLACK:
                cost = np.inf
                break
            if books.capacity[node, r] > 0.0:
                cost = max(cost, more / books.capacity[node, r])
        value = (jobs.ladders[row, step, DEMANDS] - sharers.speed[p]) * jobs.size[like] / cost
        if value > sharers.gain[p]:
            sharers.step[p] = step
            sharers.gain[p] = value


@inner
def _grant(jobs: Jobs, sharers: Sharers, node: int, p: int, free: Floats) -> bool:
    """Let a job climb as it was looked up; returns whether it gives something back by that."""
    like = sharers.like[p]
    step = sharers.step[p]
    row = jobs.job_class[like] * jobs.share.shape[0] + jobs.node_kind[node]
    returns = False
    for r in range(DEMANDS):
        more = (jobs.ladders[row, step, r] - sharers.amounts[p, r]) * jobs.gpus[like]
        free[node, r] -= more
        returns = returns or more < 0.0
        sharers.amounts[p, r] = jobs.ladders[row, step, r]
    sharers.speed[p] = jobs.ladders[row, step, DEMANDS]
    sharers.level[p] = step
    return returns


@inner
def climb_across_nodes(jobs: Jobs, books: Books, sharers: Sharers, free: Floats) -> None:
    """A job that spans nodes takes the highest step that all of them can still grant; not on mixed kinds of node."""
    for p in range(len(sharers.jobs)):
        if not sharers.spans[p]:
            continue
        like = sharers.like[p]
        gpu_ids = sharers.gpu_ids[sharers.first[p] : sharers.first[p + 1]]
        kind = jobs.node_kind[books.gpu_node[gpu_ids[0]]]
        row = jobs.job_class[like] * jobs.share.shape[0] + kind
        for step in range(jobs.top[like, kind], 0, -1):
            if _all_grant(jobs, books, gpu_ids, kind, free, jobs.ladders[row, step], sharers.amounts[p]):
                for i in range(len(gpu_ids)):
                    for r in range(DEMANDS):
                        free[books.gpu_node[gpu_ids[i]], r] -= jobs.ladders[row, step, r] - sharers.amounts[p, r]
                for r in range(DEMANDS):
                    sharers.amounts[p, r] = jobs.ladders[row, step, r]
                sharers.speed[p] = jobs.ladders[row, step, DEMANDS] * jobs.penalty[jobs.job_class[like]]
                break


@inner
def _all_grant(jobs: Jobs, books: Books, gpu_ids: Small, kind: int, free: Floats, step: Floats, now: Floats) -> bool:
    for i in range(len(gpu_ids)):
        node = books.gpu_node[gpu_ids[i]]
        if jobs.node_kind[node] != kind:
            return False
        together = 0
        for k in range(len(gpu_ids)):
            together += books.gpu_node[gpu_ids[k]] == node
        for r in range(DEMANDS):
            if (step[r] - now[r]) * together > free[node, r] + SLACK:
                return False
    return True
