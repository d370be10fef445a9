"""Applications as arrays: their stages, and how far each of their requests is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.policies.dispatch.stages import StageOrder, times_asked

ASKED = -1
"""In place of the number of stages for which one waits that has been asked."""


class Stages(NamedTuple):
    """The stages of all applications, one behind the other; each is after all that it waits for."""

    first: Ints  # applications + 1: where the stages of each begin
    slo_s: Floats  # applications
    service: Ints  # stages
    rest_s: Floats  # stages: what those behind take at least, on the slices there are
    behind_first: Ints  # stages + 1: where those that wait for it begin in `behind`
    behind: Ints
    application: Ints  # services: whose stage it is, -1 of none


class StageRequests(NamedTuple):
    """What requests of applications ask of stages: entries of `Requests` behind those from outside."""

    request: Ints  # each entry: the one from outside that it is for
    stage: Ints  # each entry
    progress: Ints  # requests from outside: where its stages begin in the next three, -1 of a plain service
    waits_for: Ints  # request x stage: stages before it that have not answered, or ASKED
    left: Ints  # request x stage: how often it has still to answer
    first: Ints  # request x stage, and one more: where its entries begin
    stages_left: Ints  # requests from outside: stages that have not answered


def stages_of(orders: Sequence[StageOrder], least_s: Floats) -> Stages:
    """All applications, where a request of each service takes at least so long."""
    starts = np.cumsum([0, *(len(order.services) for order in orders)])
    behind = [[start + each for each in stages] for order, start in zip(orders, starts, strict=False)
              for stages in order.behind]  # fmt: skip
    application = np.full(len(least_s), -1)
    for number, order in enumerate(orders):
        application[list(order.services)] = number
    return Stages(
        starts,
        np.array([order.slo_s for order in orders], dtype=np.float64),
        _ints(chain.from_iterable(order.services for order in orders)),
        np.array([each for order in orders for each in order.rest_s(least_s.tolist())], dtype=np.float64),
        np.cumsum([0, *map(len, behind)]),
        _ints(chain.from_iterable(behind)),
        application,
    )


def stage_requests(orders: Sequence[StageOrder], application: Ints) -> tuple[StageRequests, Ints]:
    """All that requests from outside will ask, and the service of each entry.

    `application` has the number of each request's application, below 0 of a plain service.
    """
    if not orders:
        none = np.zeros(0, np.int64)
        return StageRequests(none, none, none, none, none, none, none), none
    application = np.maximum(application, -1)
    counts = [len(order.services) for order in orders]
    sizes = np.array([*counts, 0], dtype=np.int64)[application]  # -1 is the last
    progress = np.where(sizes > 0, np.cumsum(sizes) - sizes, -1)
    stage_first = np.cumsum([0, *counts])
    total = int(sizes.sum())
    waits_for, left, stage, service = (np.zeros(total, np.int64) for _ in range(4))
    for number, order in enumerate(orders):
        own = progress[application == number]
        for place in range(len(order.services)):
            waits_for[own + place] = order.before[place]
            left[own + place] = times_asked(0, len(own), order.per_request[place])
            stage[own + place] = stage_first[number] + place
            service[own + place] = order.services[place]
    request = np.repeat(np.arange(len(application)), sizes)
    found = StageRequests(
        np.repeat(request, left), np.repeat(stage, left), progress, waits_for, left,
        np.concatenate([[0], np.cumsum(left)]), sizes.copy(),
    )  # fmt: skip
    return found, np.repeat(service, left)


def _ints(values: object) -> Ints:
    return np.array(list(values), dtype=np.int64)  # type: ignore[call-overload]
