"""All that serving is about at one instant, as arrays: requests, their queues, slices and the batches they run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Bytes, Floats, Ints
from gpuyard.simulation.serving.stages import StageRequests, Stages

PENDING, TAKEN, DROPPED, REFUSED, ABANDONED = range(5)
"""What became of a request: still to come or waiting; in a batch; too late for any batch; turned away; not needed now.

Of an application: on its way; answered; a stage could not answer in time; turned away. Whatever of it still waits when
it is dropped is abandoned.
"""

IDLE = -1


class Requests(NamedTuple):
    """One entry a request from outside, in order of arrival, and behind these one for each that a stage is asked."""

    arrival_s: Floats  # inf: of a stage that has not been asked yet
    service: Ints  # applications are numbered behind the services
    batch: Ints  # the number of its batch, -1 without one
    fate: Bytes


class Queues(NamedTuple):
    """All queues lie one behind the other in `line`, which has a place for every request."""

    line: Ints  # numbers of requests
    head: Ints  # services: where the oldest waits
    tail: Ints  # services: where the next will wait
    waiting: Ints  # services


class Slices(NamedTuple):
    """One entry a slice; those from an earlier layout that still run a batch have no turns any more."""

    gpu: Ints
    span: Ints  # numbers in the table of all slices there ever were
    latest: Ints  # the turn it ran last
    batch: Ints  # the number of the batch that it runs, or IDLE
    place: Ints  # where in the line of all queues this batch began
    end_s: Floats  # of that batch, as things are; inf without one
    left_s: Floats  # of it at `since_s`, were it alone
    since_s: Floats
    slowdown: Floats
    alone_s: Floats
    raw_s: Floats
    own: Floats
    pressure: Floats
    fresh: Bytes  # 1: begins only when its GPU has nothing left to do for an earlier layout


class Gpus(NamedTuple):
    """One entry a GPU, and the numbers of its slices from `first[gpu]` to before `first[gpu + 1]`."""

    first: Ints
    slices: Ints
    draining: Ints  # batches that an earlier layout still has there


class RunningBatches(NamedTuple):
    """One entry a batch, in the order in which they began."""

    span: Ints
    size: Ints
    start_s: Floats
    finish_s: Floats


class Turns(NamedTuple):
    """What of a Layout is needed while serving."""

    slo_s: Floats
    places: Ints
    capacity_per_s: Floats
    least_s: Floats
    service_first: Ints
    service_turns: Ints
    slice_first: Ints
    turn_slice: Ints
    turn_service: Ints
    turn_batch: Ints
    planned_s: Floats
    alone_s: Floats
    raw_s: Floats
    own: Floats
    pressure: Floats


class Serving(NamedTuple):
    """Everything."""

    turns: Turns
    requests: Requests
    queues: Queues
    slices: Slices
    gpus: Gpus
    batches: RunningBatches
    soonest: Ints  # a tree over slices: who of two ends first, up to who ends first of all
    totals: Ints  # requests that have arrived, batches that have begun; requests to let in, and all from outside
    stages: Stages
    asked: StageRequests


ARRIVED, BEGUN, EXPECTED, OUTSIDE = range(4)


def new_requests(arrival_s: Floats, service: Ints, asked_service: Ints) -> Requests:
    """Requests that nobody has seen yet, and those that stages will be asked, by their services."""
    if len(asked_service):
        arrival_s = np.concatenate([arrival_s, np.full(len(asked_service), np.inf)])
        service = np.concatenate([service, asked_service])
    count = len(arrival_s)
    return Requests(arrival_s, service, np.full(count, -1), np.zeros(count, np.int8))


def some_of(requests: Requests, which: slice | Ints) -> Requests:
    """Those entries alone."""
    return Requests(requests.arrival_s[which], requests.service[which], requests.batch[which], requests.fate[which])


def new_queues(service: Ints, services: int) -> Queues:
    """Empty queues with room for all requests of each service; applications, numbered behind these, have none."""
    ends = np.cumsum(np.bincount(service, minlength=services)[:services])
    starts = np.concatenate([[0], ends[:-1]])
    return Queues(np.empty(len(service), np.int64), starts, starts.copy(), np.zeros(services, np.int64))


def new_batches(requests: int) -> RunningBatches:
    """Room for as many batches as there can be: memory is taken only as it is used."""
    size = np.empty(requests, np.int64)
    return RunningBatches(np.empty_like(size), size, np.empty(requests), np.empty(requests))


def new_slices(gpu: Ints, span: Ints, latest: Ints, fresh: Bytes) -> Slices:
    """Slices that have not run anything."""
    zeros = np.zeros(len(gpu))
    return Slices(
        gpu, span, latest, np.full(len(gpu), IDLE), np.zeros(len(gpu), np.int64), np.full(len(gpu), np.inf),
        left_s=zeros.copy(), since_s=zeros.copy(), slowdown=zeros.copy(), alone_s=zeros.copy(), raw_s=zeros.copy(),
        own=zeros.copy(), pressure=zeros.copy(), fresh=fresh,
    )  # fmt: skip


def gpus_of(slice_gpu: Ints, gpus: int) -> Gpus:
    """The slices of each GPU, in their order."""
    first = np.concatenate([[0], np.cumsum(np.bincount(slice_gpu, minlength=gpus))])
    return Gpus(first, np.argsort(slice_gpu, kind="stable"), np.zeros(gpus, np.int64))


def tree_of(end_s: Floats) -> Ints:
    """A tree that knows who ends first; leaves without a slice count as the last one, which changes nothing."""
    leaves = 1 << max(len(end_s) - 1, 0).bit_length()
    tree = np.zeros(2 * leaves, np.int64)
    tree[leaves:] = np.minimum(np.arange(leaves), max(len(end_s) - 1, 0))
    for place in range(leaves - 1, 0, -1):
        left, right = tree[2 * place], tree[2 * place + 1]
        tree[place] = right if len(end_s) and end_s[right] < end_s[left] else left
    return tree
