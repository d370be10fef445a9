"""The events of serving, compiled: requests arrive, batches end, slices begin the next.

At one instant batches end before requests arrive, and either in the order of their numbers. A slice that has ended a
batch begins its next one, and then what the ended one was for goes on to other stages, all of it before any idle slice
takes a part. Everything is worked out from the last change of a slice's speed, never added up step by step.
"""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.kernel import inner, kernel
from gpuyard.policies.dispatch.rules import batch_of, is_refused, is_too_late, next_turn, slowdown
from gpuyard.simulation.serving.stage_events import ask_stages, deadline_of, give_up, hand_on
from gpuyard.simulation.serving.state import (
    ABANDONED,
    ARRIVED,
    BEGUN,
    DROPPED,
    EXPECTED,
    IDLE,
    OUTSIDE,
    REFUSED,
    TAKEN,
    Serving,
)


@kernel
def advance(serving: Serving, until_s: float) -> None:
    """Let everything happen up to and including an instant."""
    slices, arrival_s, totals = serving.slices, serving.requests.arrival_s, serving.totals
    while True:
        first = serving.soonest[1]
        ends_s = slices.end_s[first] if len(slices.end_s) else np.inf
        arrives_s = arrival_s[totals[ARRIVED]] if totals[ARRIVED] < totals[EXPECTED] else np.inf
        if min(ends_s, arrives_s) > until_s or min(ends_s, arrives_s) == np.inf:
            return
        if ends_s <= arrives_s:
            _finish(serving, first, ends_s)
        else:
            totals[ARRIVED] += 1
            _arrive(serving, totals[ARRIVED] - 1, arrives_s)


@kernel
def wake(serving: Serving, now_s: float) -> None:
    """Let every idle slice look for work: there are new ones."""
    for number in range(len(serving.slices.batch)):
        if serving.slices.batch[number] == IDLE:
            _begin_next(serving, number, now_s)


@inner
def _arrive(serving: Serving, request: int, now_s: float) -> None:
    """Refuse a request, or let it wait; an idle slice takes it at once."""
    turns, queues = serving.turns, serving.queues
    service = serving.requests.service[request]
    if service >= len(queues.waiting):
        _arrive_at_application(serving, request, service - len(queues.waiting), now_s)
        return
    limits = (turns.places[service], turns.capacity_per_s[service], turns.least_s[service], turns.slo_s[service])
    if is_refused(queues.waiting[service], limits[0], limits[1], limits[2], limits[3]):
        serving.requests.fate[request] = REFUSED
        return
    queues.line[queues.tail[service]] = request
    queues.tail[service] += 1
    queues.waiting[service] += 1
    for place in range(turns.service_first[service], turns.service_first[service + 1]):
        number = turns.turn_slice[turns.service_turns[place]]
        if serving.slices.batch[number] == IDLE and _begin_next(serving, number, now_s):
            return


@inner
def _arrive_at_application(serving: Serving, request: int, application: int, now_s: float) -> None:
    """Refuse a request of an application, or let it wait for its first stages."""
    if ask_stages(serving, request, now_s):
        _wake_stages(serving, application, now_s)
    else:
        give_up(serving, request, REFUSED)


@inner
def _wake_stages(serving: Serving, application: int, now_s: float) -> None:
    """Let idle slices begin with what waits for the stages of an application."""
    turns, stages, waiting = serving.turns, serving.stages, serving.queues.waiting
    for stage in range(stages.first[application], stages.first[application + 1]):
        service = stages.service[stage]
        for place in range(turns.service_first[service], turns.service_first[service + 1]):
            number = turns.turn_slice[turns.service_turns[place]]
            if waiting[service] > 0 and serving.slices.batch[number] == IDLE:
                _begin_next(serving, number, now_s)


@inner
def _finish(serving: Serving, number: int, now_s: float) -> None:
    """End a slice's batch, begin its next one, and hand on what ended."""
    slices, gpus = serving.slices, serving.gpus
    gpu, batch, begun = slices.gpu[number], slices.batch[number], slices.place[number]
    serving.batches.finish_s[batch] = now_s
    slices.batch[number] = IDLE
    slices.end_s[number] = np.inf
    _rank(serving.soonest, slices.end_s, number)
    if not _begin_next(serving, number, now_s):
        _pace(serving, gpu, now_s)
    if serving.turns.slice_first[number] == serving.turns.slice_first[number + 1] and gpus.draining[gpu] > 0:
        gpus.draining[gpu] -= 1
        if gpus.draining[gpu] == 0:
            for place in range(gpus.first[gpu], gpus.first[gpu + 1]):
                if slices.batch[gpus.slices[place]] == IDLE:
                    _begin_next(serving, gpus.slices[place], now_s)
    if len(serving.asked.request) > 0:
        application = serving.stages.application[serving.requests.service[serving.queues.line[begun]]]
        if application >= 0:
            hand_on(serving, batch, begun, now_s)
            _wake_stages(serving, application, now_s)


@inner
def _begin_next(serving: Serving, number: int, now_s: float) -> bool:
    """Begin a batch of the next turn for which anybody waits who can still be answered in time; False without one."""
    slices, turns, waiting = serving.slices, serving.turns, serving.queues.waiting
    if slices.fresh[number] and serving.gpus.draining[slices.gpu[number]] > 0:
        return False
    first, last = turns.slice_first[number], turns.slice_first[number + 1]
    while True:
        turn = next_turn(first, last, slices.latest[number], turns.turn_service, waiting)
        if turn < 0:
            return False
        slices.latest[number] = turn
        _drop(serving, turn, now_s)
        size = batch_of(waiting[turns.turn_service[turn]], turns.turn_batch[turn])
        if size > 0:
            _begin(serving, number, turn, size, now_s)
            return True


@inner
def _drop(serving: Serving, turn: int, now_s: float) -> None:
    """Drop the oldest requests that this turn would answer too late; applications then need nothing more of theirs."""
    turns, queues, requests = serving.turns, serving.queues, serving.requests
    service = turns.turn_service[turn]
    while queues.waiting[service] > 0:
        takes_s = turns.planned_s[turn, batch_of(queues.waiting[service], turns.turn_batch[turn])]
        oldest = queues.line[queues.head[service]]
        if requests.fate[oldest] == ABANDONED:
            queues.head[service] += 1
            continue
        if not is_too_late(deadline_of(serving, oldest), now_s, takes_s):
            return
        requests.fate[oldest] = DROPPED
        queues.head[service] += 1
        queues.waiting[service] -= 1
        if oldest >= serving.totals[OUTSIDE]:
            give_up(serving, serving.asked.request[oldest - serving.totals[OUTSIDE]], DROPPED)


@inner
def _begin(serving: Serving, number: int, turn: int, size: int, now_s: float) -> None:
    """Take the oldest requests and run them together."""
    slices, turns, queues, batches = serving.slices, serving.turns, serving.queues, serving.batches
    service = turns.turn_service[turn]
    batch = serving.totals[BEGUN]
    serving.totals[BEGUN] += 1
    slices.place[number] = queues.head[service]
    left = size
    while left > 0:
        request = queues.line[queues.head[service]]
        queues.head[service] += 1
        if serving.requests.fate[request] != ABANDONED:
            serving.requests.batch[request] = batch
            serving.requests.fate[request] = TAKEN
            left -= 1
    queues.waiting[service] -= size
    batches.span[batch], batches.size[batch], batches.start_s[batch] = slices.span[number], size, now_s
    batches.finish_s[batch] = np.inf
    slices.batch[number] = batch
    slices.alone_s[number], slices.raw_s[number] = turns.alone_s[turn, size], turns.raw_s[turn, size]
    slices.own[number], slices.pressure[number] = turns.own[turn, size], turns.pressure[turn, size]
    slices.left_s[number], slices.since_s[number] = slices.alone_s[number], now_s
    slices.slowdown[number] = -1.0  # not known yet: it is given one with its neighbours
    _pace(serving, slices.gpu[number], now_s)


@inner
def _pace(serving: Serving, gpu: int, now_s: float) -> None:
    """Give all batches of a GPU the speed at which they run beside each other, from now on."""
    slices, gpus = serving.slices, serving.gpus
    for place in range(gpus.first[gpu], gpus.first[gpu + 1]):
        number = gpus.slices[place]
        if slices.batch[number] == IDLE:
            continue
        slower = _slowdown(serving, gpu, number)
        if slower != slices.slowdown[number]:
            if slices.slowdown[number] > 0.0:
                slices.left_s[number] -= (now_s - slices.since_s[number]) / slices.slowdown[number]
            slices.since_s[number] = now_s
            slices.slowdown[number] = slower
            slices.end_s[number] = max(now_s, now_s + slices.left_s[number] * slower)
            _rank(serving.soonest, slices.end_s, number)


@inner
def _slowdown(serving: Serving, gpu: int, number: int) -> float:
    """How much a batch is slowed down by the worst of those that run beside it; 1 if none does."""
    slices, gpus = serving.slices, serving.gpus
    alone, pressure = True, 0.0
    for place in range(gpus.first[gpu], gpus.first[gpu + 1]):
        other = gpus.slices[place]
        if other != number and slices.batch[other] != IDLE:
            pressure = slices.pressure[other] if alone else max(pressure, slices.pressure[other])
            alone = False
    if alone:
        return 1.0
    return slowdown(slices.alone_s[number], slices.raw_s[number], slices.own[number], pressure)


@inner
def _rank(tree: Ints, end_s: Floats, number: int) -> None:
    """Bring the tree up to date after a slice's end has changed; of two equal ends the lower number's comes first."""
    place = (len(tree) // 2 + number) // 2
    while place > 0:
        left, right = tree[2 * place], tree[2 * place + 1]
        tree[place] = right if end_s[right] < end_s[left] else left
        place //= 2
