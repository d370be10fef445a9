"""Sorting jobs by their keys, and finding out when that order can next change."""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.kernel import inner, kernel
from gpuyard.policies.leading_digits import by_leading_digits


@inner
def _before(priority: Ints, key: Floats, jobs: Ints, a: int, b: int) -> bool:
    if len(priority) and priority[a] != priority[b]:
        return bool(priority[a] > priority[b])
    if key[a] != key[b]:
        return bool(key[a] < key[b])
    return bool(jobs[a] < jobs[b])


FEW = 16
"""So few runs are merged as they are; with more of them it pays to find out who makes them so many."""


MANY = 1000
"""With fewer jobs than this it does not matter how they are sorted."""

A_FEW = 16
"""If more than one of so many jobs went far, sorting all of them anew is faster."""


def positions_in_order(jobs: Ints, priority: Ints, key: Floats) -> Ints:
    """Positions in order of (highest priority, lowest key, earliest arrival): as `arrange`, at most a sort's time."""
    positions = _arranged(jobs, priority, key, len(jobs) >= MANY)
    return positions if len(positions) == len(jobs) else np.lexsort((jobs, key, -priority))


@kernel
def arrange(jobs: Ints, priority: Ints, key: Floats) -> Ints:
    """Positions in order of (highest priority, lowest key, earliest arrival).

    The jobs come in last round's order. What is left of it are runs, which are merged. Where a few jobs that went far
    have broken it into many, these are taken out, sorted on their own and merged with the others: nearly linear.
    """
    return _arranged(jobs, priority, key, False)


@kernel
def _arranged(jobs: Ints, priority: Ints, key: Floats, may_give_up: bool) -> Ints:
    """Arrange. Where that may be given up and more than a few jobs went far, sort anew; nothing if many are equal."""
    n = len(jobs)
    order = np.arange(n)
    if not _differ(priority):
        priority = priority[:0]
    if _in_order(jobs, priority, key):
        return order
    spare = np.empty(n, dtype=np.int64)
    bounds = np.empty(n + 1, dtype=np.int64)
    runs = _runs(jobs, priority, key, order, bounds)
    if runs <= FEW:
        return spare if _merge_runs(jobs, priority, key, order, spare, bounds, runs) else order
    moved = np.empty(n, dtype=np.int64)
    kept = _part(jobs, priority, key, order, moved, n // A_FEW if may_give_up else n)
    if kept < 0:
        order = by_leading_digits(key)
        return order if len(priority) == 0 and _finish(jobs, key, order) else order[:0]
    moved = moved[: n - kept]
    runs = _runs(jobs, priority, key, moved, bounds)
    in_spare = _merge_runs(jobs, priority, key, moved, spare[: n - kept], bounds, runs)
    order[kept:] = spare[: n - kept] if in_spare else moved
    _merge(jobs, priority, key, order, spare, 0, kept, n)
    return spare


@inner
def _finish(jobs: Ints, key: Floats, order: Ints) -> bool:
    """Put positions that are nearly in order in order; False where that would take more steps than there are jobs."""
    steps = 0
    for i in range(1, len(order)):
        position, place = order[i], i
        while place > 0 and _before(jobs[:0], key, jobs, position, order[place - 1]):
            order[place] = order[place - 1]
            place -= 1
            steps += 1
            if steps > len(order):
                return False
        order[place] = position
    return True


@inner
def _differ(priority: Ints) -> bool:
    for i in range(1, len(priority)):
        if priority[i] != priority[0]:
            return True
    return False


@inner
def _in_order(jobs: Ints, priority: Ints, key: Floats) -> bool:
    for i in range(1, len(jobs)):
        if _before(priority, key, jobs, i, i - 1):
            return False
    return True


@inner
def _runs(jobs: Ints, priority: Ints, key: Floats, order: Ints, bounds: Ints) -> int:
    """Note where runs of positions in order begin, and where the last one ends; returns how many there are."""
    bounds[0] = 0
    runs = 1
    for i in range(1, len(order)):
        if _before(priority, key, jobs, order[i], order[i - 1]):
            bounds[runs] = i
            runs += 1
    bounds[runs] = len(order)
    return runs


@inner
def _part(jobs: Ints, priority: Ints, key: Floats, kept: Ints, moved: Ints, most: int) -> int:
    """Split positions into those that are in order, nearly as many as there can be, and the others.

    Who comes before the last one kept has moved up; but once as many in a row seem to have as were kept before them, it
    was those who moved down. Returns how many are kept, or -1 as soon as more than `most` have moved.
    """
    stay, gone, in_a_row = 0, 0, 0
    last = 0
    for i in range(len(jobs)):
        if gone > most:
            return -1
        if stay > 0 and _before(priority, key, jobs, i, last):
            in_a_row += 1
            if stay > in_a_row and _before(priority, key, jobs, i, kept[stay - 1 - in_a_row]):
                moved[gone] = i
                gone += 1
                continue
            first = stay
            while first > 0 and _before(priority, key, jobs, i, kept[first - 1]):
                first -= 1
            for place in range(first, stay):
                moved[gone] = kept[place]
                gone += 1
            stay = first
        in_a_row = 0
        kept[stay] = i
        stay += 1
        last = i
    return -1 if gone > most else stay


@inner
def _merge_runs(jobs: Ints, priority: Ints, key: Floats, order: Ints, spare: Ints, bounds: Ints, runs: int) -> bool:
    """Merge runs, two by two, until there is one; returns whether that is in `spare`."""
    in_spare = False
    while runs > 1:
        merged = 0
        for run in range(0, runs, 2):
            low, middle = bounds[run], bounds[run + 1]
            high = bounds[run + 2] if run + 2 <= runs else middle
            _merge(jobs, priority, key, order, spare, low, middle, high)
            bounds[merged] = low
            merged += 1
        bounds[merged] = len(order)
        runs = merged
        order, spare = spare, order
        in_spare = not in_spare
    return in_spare


@inner
def _merge(jobs: Ints, priority: Ints, key: Floats, order: Ints, into: Ints, low: int, middle: int, high: int) -> None:
    """Merge two lists that stand one behind the other, each in order."""
    a, b, to = low, middle, low
    while a < middle and b < high:
        if _before(priority, key, jobs, order[b], order[a]):
            into[to] = order[b]
            b += 1
        else:
            into[to] = order[a]
            a += 1
        to += 1
    for rest in range(a, middle):
        into[to] = order[rest]
        to += 1
    for rest in range(b, high):
        into[to] = order[rest]
        to += 1


@inner
def seconds_to_crossing(priority: Ints, key: Floats, rate: Floats) -> float:
    """Time until two neighbours in this order change places, if each key goes on changing at its rate.

    Keys are straight lines, so the first pair to cross is a pair of neighbours.
    """
    soonest = np.inf
    for i in range(len(key) - 1):
        closing = rate[i] - rate[i + 1]
        if closing > 0.0 and priority[i] == priority[i + 1]:
            soonest = min(soonest, (key[i + 1] - key[i]) / closing)
    return soonest
