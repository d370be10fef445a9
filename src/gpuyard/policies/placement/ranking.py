"""The best node for each of many jobs, without asking every node about every job.

Jobs of one shape are alike to a placement, so what a node scores for one it scores for all; and placing a job changes
the scores of its own nodes alone. The scores of a shape are kept, with the best node of each half, quarter and so on.
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

_ROWS, _CHANGES = 0, 1


class Ranking(NamedTuple):
    """What the nodes score for the shapes of jobs met so far, while a plan is being made.

    Nodes are those with a free GPU when it was opened, and known by their place among them: in a full cluster, few.
    """

    nodes: Ints
    place: Ints  # node -> its place; -1 for the others
    row: Ints  # shape x GPU type -> its row in the tables, -1 before it is met
    score: Floats  # row x place; infinite where there is no room
    best: Small  # row x part of the nodes -> the best place there; part k is made of 2k and 2k + 1, 1 is all nodes
    known: Ints  # row -> how many of the changes its scores include
    changed: Ints  # places in which somebody was placed, one after the other
    counts: Ints  # rows in use, changes


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
    return Ranking(
        chosen, place, np.full((shapes, types), -1, dtype=np.int64), np.empty((rows, nodes)),
        np.empty((rows, 2 * nodes), dtype=np.int32), np.empty(rows, dtype=np.int64),
        np.empty(most_changes, dtype=np.int64), np.zeros(2, dtype=np.int64),
    )  # fmt: skip


@inner
def best_node(ranking: Ranking, draft: Draft, jobs: Jobs, books: Books, job: int, gpu_type: int, mode: int) -> int:
    """The node that a placement chooses for a whole job, as `place` would; -1 if none has room, or it is not known."""
    shape = jobs.shape[job]
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
            if draft.whole_free[ranking.nodes[ranking.changed[i]]] >= books.lines[job]:
                _score_anew(ranking, draft, jobs, books, job, gpu_type, mode, row, ranking.changed[i])
    ranking.known[row] = ranking.counts[_CHANGES]
    return _first_with_room(ranking, draft, jobs, books, job, gpu_type, mode, row)


@inner
def _first_with_room(
    ranking: Ranking, draft: Draft, jobs: Jobs, books: Books, job: int, gpu_type: int, mode: int, row: int
) -> int:
    """The best node of a row; nodes that were filled since keep their scores until they come up here: most never do."""
    best = ranking.best[row, 1]
    while ranking.score[row, best] < np.inf and draft.whole_free[ranking.nodes[best]] < books.lines[job]:
        _score_anew(ranking, draft, jobs, books, job, gpu_type, mode, row, best)
        best = ranking.best[row, 1]
    return int(ranking.nodes[best]) if ranking.score[row, best] < np.inf else -1


@inner
def note_changes(ranking: Ranking, books: Books, gpu_ids: Small, first: int, last: int) -> None:
    """Somebody was placed on these GPUs."""
    for i in range(first, last):
        node = books.gpu_node[gpu_ids[i]]
        if i == first or node != books.gpu_node[gpu_ids[i - 1]]:
            place = ranking.place[node]
            if place >= 0:
                ranking.changed[ranking.counts[_CHANGES]] = place
                ranking.counts[_CHANGES] += 1


@inner
def _score_all(
    ranking: Ranking, draft: Draft, jobs: Jobs, books: Books, job: int, gpu_type: int, mode: int, row: int
) -> None:
    places = len(ranking.nodes)
    for place in range(places):
        ranking.score[row, place] = _score_of(draft, jobs, books, job, gpu_type, mode, ranking.nodes[place])
        ranking.best[row, places + place] = place
    for part in range(places - 1, 0, -1):
        ranking.best[row, part] = _better(ranking, row, ranking.best[row, 2 * part], ranking.best[row, 2 * part + 1])


@inner
def _score_anew(
    ranking: Ranking, draft: Draft, jobs: Jobs, books: Books, job: int, gpu_type: int, mode: int, row: int, place: int
) -> None:
    """Ask one node again; parts of the nodes whose best that cannot change are left alone."""
    before = ranking.score[row, place]
    ranking.score[row, place] = _score_of(draft, jobs, books, job, gpu_type, mode, ranking.nodes[place])
    part = (len(ranking.nodes) + place) // 2
    if ranking.score[row, place] <= before:
        while part > 0 and _better(ranking, row, ranking.best[row, part], place) == place:
            ranking.best[row, part] = place
            part //= 2
    else:
        while part > 0 and ranking.best[row, part] == place:
            ranking.best[row, part] = _better(
                ranking, row, ranking.best[row, 2 * part], ranking.best[row, 2 * part + 1]
            )
            part //= 2


@inner
def _score_of(draft: Draft, jobs: Jobs, books: Books, job: int, gpu_type: int, mode: int, node: int) -> float:
    if jobs.node_type[node] != gpu_type or draft.whole_free[node] < books.lines[job]:
        return np.inf
    return score(draft, books, job, node, mode)


@inner
def _better(ranking: Ranking, row: int, a: int, b: int) -> int:
    """Of two places the one with the lower score; of equals the first."""
    one, other = ranking.score[row, a], ranking.score[row, b]
    return a if one < other or (one == other and a < b) else b
