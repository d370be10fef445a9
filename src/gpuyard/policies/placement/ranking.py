"""The best node for each of many jobs, without asking every node about every job.

Jobs of one shape are alike to a placement, so what a node scores for one it scores for all; and placing a job changes
the scores of its own nodes alone. The scores of a shape are kept, with the best of each stretch of nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Floats, Ints, Small
from gpuyard.core.books import Books
from gpuyard.core.kernel import inner, kernel
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.placement.choosing import Draft, score

MANY = 32
"""Fewer jobs than this are placed faster by asking every node about each."""

_MOST_ROWS = 128
"""Shapes that are kept at once; jobs of any further shape are placed one by one."""

_ROWS, _CHANGES, _STRETCH = 0, 1, 2


class Ranking(NamedTuple):
    """What the nodes score for the shapes of jobs met so far, while a plan is being made.

    Nodes are those with a free GPU when it was opened, and known by their place among them: in a full cluster, few.
    """

    nodes: Ints
    place: Ints  # node -> its place; -1 for the others
    row: Ints  # shape x GPU type -> its row in the tables, -1 before it is met
    score: Floats  # row x place; infinite where there is no room
    best: Ints  # row x stretch -> the best place there
    lowest: Floats  # row x stretch -> its score
    known: Ints  # row -> how many of the changes its scores include
    changed: Ints  # places in which somebody was placed, one after the other
    latest: Ints  # place -> the last of its changes
    counts: Ints  # rows in use, changes, places in a stretch


@kernel
def open_ranking(jobs: Jobs, draft: Draft, most_changes: int) -> Ranking:
    """A ranking that has met no job yet; with room for no change it will not meet any."""
    chosen = np.flatnonzero(draft.whole_free if most_changes else draft.whole_free[:0])
    place = np.full(len(draft.whole_free), -1, dtype=np.int64)
    for k in range(len(chosen)):
        place[chosen[k]] = k
    nodes = len(chosen)
    shapes, types = jobs.shapes[0] if most_changes else 0, jobs.type_speed.shape[1]
    rows = min(shapes * types, _MOST_ROWS)
    stretch = int(np.sqrt(nodes)) + 1
    stretches = -(-nodes // stretch)
    return Ranking(
        chosen, place, np.full((shapes, types), -1, dtype=np.int64), np.empty((rows, nodes)),
        np.empty((rows, stretches), dtype=np.int64), np.empty((rows, stretches)), np.empty(rows, dtype=np.int64),
        np.empty(most_changes, dtype=np.int64), np.zeros(nodes, dtype=np.int64), np.array([0, 0, stretch]),
    )  # fmt: skip


@inner
def best_node(ranking: Ranking, draft: Draft, jobs: Jobs, books: Books, job: int, gpu_type: int, mode: int) -> int:
    """The node that a placement chooses for a whole job, as `place` would; -1 if none has room, or it is not known."""
    shape = jobs.shape[jobs.like[job]]
    row = ranking.row[shape, gpu_type]
    if row < 0:
        row = ranking.counts[_ROWS]
        if row == len(ranking.known):
            return -1
        ranking.counts[_ROWS] += 1
        ranking.row[shape, gpu_type] = row
        _score_all(ranking, draft, jobs, books, job, gpu_type, mode, row)
    elif 2 * (ranking.counts[_CHANGES] - ranking.known[row]) > len(ranking.nodes):
        _score_all(ranking, draft, jobs, books, job, gpu_type, mode, row)
    else:
        for i in range(ranking.known[row], ranking.counts[_CHANGES]):
            place = ranking.changed[i]
            if ranking.latest[place] == i and draft.whole_free[ranking.nodes[place]] >= jobs.gpus[jobs.like[job]]:
                _score_anew(ranking, draft, jobs, books, job, gpu_type, mode, row, place)
    ranking.known[row] = ranking.counts[_CHANGES]
    return _first_with_room(ranking, draft, jobs, books, job, gpu_type, mode, row)


@inner
def _first_with_room(
    ranking: Ranking, draft: Draft, jobs: Jobs, books: Books, job: int, gpu_type: int, mode: int, row: int
) -> int:
    """The best node of a row; nodes that were filled since keep their scores until they come up here: most never do."""
    while True:
        best, lowest = -1, np.inf
        for k in range(ranking.lowest.shape[1]):
            if ranking.lowest[row, k] < lowest:
                best, lowest = ranking.best[row, k], ranking.lowest[row, k]
        if best < 0:
            return -1
        node = ranking.nodes[best]
        if draft.whole_free[node] >= jobs.gpus[jobs.like[job]]:
            return int(node)
        _score_anew(ranking, draft, jobs, books, job, gpu_type, mode, row, best)


@inner
def note_changes(ranking: Ranking, draft: Draft, books: Books, gpu_ids: Small, first: int, last: int) -> None:
    """Somebody was placed on these GPUs."""
    for i in range(first, last):
        node = books.gpu_node[gpu_ids[i]]
        if i == first or node != books.gpu_node[gpu_ids[i - 1]]:
            place = ranking.place[node]
            if place < 0:
                continue
            if draft.whole_free[node] == 0:
                _retire(ranking, place)
            else:
                ranking.changed[ranking.counts[_CHANGES]] = place
                ranking.latest[place] = ranking.counts[_CHANGES]
                ranking.counts[_CHANGES] += 1


@inner
def _retire(ranking: Ranking, place: int) -> None:
    """A node is full: no row need look at it again."""
    k = place // ranking.counts[_STRETCH]
    for row in range(ranking.counts[_ROWS]):
        ranking.score[row, place] = np.inf
        if ranking.best[row, k] == place:
            _find_best(ranking, row, k)


@inner
def _score_all(
    ranking: Ranking, draft: Draft, jobs: Jobs, books: Books, job: int, gpu_type: int, mode: int, row: int
) -> None:
    for place in range(len(ranking.nodes)):
        ranking.score[row, place] = _score_of(draft, jobs, books, job, gpu_type, mode, ranking.nodes[place])
    for k in range(ranking.lowest.shape[1]):
        _find_best(ranking, row, k)


@inner
def _score_anew(
    ranking: Ranking, draft: Draft, jobs: Jobs, books: Books, job: int, gpu_type: int, mode: int, row: int, place: int
) -> None:
    """Ask one node again; its stretch is looked through only where its best has become worse."""
    score = _score_of(draft, jobs, books, job, gpu_type, mode, ranking.nodes[place])
    ranking.score[row, place] = score
    k = place // ranking.counts[_STRETCH]
    best, lowest = ranking.best[row, k], ranking.lowest[row, k]
    if score < lowest or (score == lowest and place < best):
        ranking.best[row, k], ranking.lowest[row, k] = place, score
    elif place == best:
        _find_best(ranking, row, k)


@inner
def _find_best(ranking: Ranking, row: int, k: int) -> None:
    """Of the places of a stretch the one with the lowest score; of equals the first."""
    stretch = ranking.counts[_STRETCH]
    best, lowest = k * stretch, np.inf
    for place in range(k * stretch, min((k + 1) * stretch, len(ranking.nodes))):
        if ranking.score[row, place] < lowest:
            best, lowest = place, ranking.score[row, place]
    ranking.best[row, k], ranking.lowest[row, k] = best, lowest


@inner
def _score_of(draft: Draft, jobs: Jobs, books: Books, job: int, gpu_type: int, mode: int, node: int) -> float:
    if jobs.node_type[node] != gpu_type or draft.whole_free[node] < jobs.gpus[jobs.like[job]]:
        return np.inf
    return score(draft, jobs, books, job, node, mode)
