"""Requests of applications on their way, compiled: stages are asked, answer, or end the request early."""

from __future__ import annotations

import numpy as np

from gpuyard.core.kernel import inner
from gpuyard.policies.dispatch.rules import deadline, is_refused_by_stage, stage_deadline
from gpuyard.simulation.serving.stages import ASKED
from gpuyard.simulation.serving.state import ABANDONED, DROPPED, OUTSIDE, PENDING, REFUSED, TAKEN, Serving


@inner
def ask_stages(serving: Serving, request: int, now_s: float) -> bool:
    """Ask every stage for which nothing is missing any more; False if one could not answer in time."""
    stages, asked = serving.stages, serving.asked
    application = serving.requests.service[request] - len(serving.queues.waiting)
    first = stages.first[application]
    for stage in range(first, stages.first[application + 1]):
        entry = asked.progress[request] + stage - first
        if asked.waits_for[entry] == 0:
            asked.waits_for[entry] = ASKED
            if asked.left[entry] == 0:
                _note_answer(serving, request, stage)
            elif not _ask(serving, stage, entry, now_s):
                return False
    if asked.stages_left[request] == 0:
        serving.requests.fate[request] = TAKEN
    return True


@inner
def _ask(serving: Serving, stage: int, entry: int, now_s: float) -> bool:
    """Let all that a request asks of a stage wait; False, and none does, if the last could not be answered in time."""
    turns, queues, requests, asked = serving.turns, serving.queues, serving.requests, serving.asked
    service, from_outside = serving.stages.service[stage], serving.totals[OUTSIDE]
    count = asked.left[entry]
    first = from_outside + asked.first[entry]
    refused = is_refused_by_stage(
        queues.waiting[service] + count - 1, turns.places[service], turns.capacity_per_s[service],
        turns.least_s[service], deadline_of(serving, first), now_s,
    )  # fmt: skip
    for each in range(first, first + count):
        requests.arrival_s[each] = now_s
        if refused:
            requests.fate[each] = REFUSED
        else:
            queues.line[queues.tail[service]] = each
            queues.tail[service] += 1
    if not refused:
        queues.waiting[service] += count
    return not refused


@inner
def _note_answer(serving: Serving, request: int, stage: int) -> None:
    """Let nobody wait for a stage any more."""
    stages, asked = serving.stages, serving.asked
    application = serving.requests.service[request] - len(serving.queues.waiting)
    asked.stages_left[request] -= 1
    for place in range(stages.behind_first[stage], stages.behind_first[stage + 1]):
        asked.waits_for[asked.progress[request] + stages.behind[place] - stages.first[application]] -= 1


@inner
def hand_on(serving: Serving, batch: int, place: int, now_s: float) -> None:
    """Let a batch that has ended, and whose requests waited from `place` on, take the requests it was for further."""
    requests, asked, from_outside = serving.requests, serving.asked, serving.totals[OUTSIDE]
    left = serving.batches.size[batch]
    while left > 0:
        each = serving.queues.line[place]
        place += 1
        if requests.batch[each] != batch:  # abandoned
            continue
        left -= 1
        if each < from_outside:
            continue
        request, stage = asked.request[each - from_outside], asked.stage[each - from_outside]
        if requests.fate[request] != PENDING:
            continue
        first = serving.stages.first[requests.service[request] - len(serving.queues.waiting)]
        entry = asked.progress[request] + stage - first
        asked.left[entry] -= 1
        if asked.left[entry] == 0:
            _note_answer(serving, request, stage)
            if not ask_stages(serving, request, now_s):
                give_up(serving, request, DROPPED)


@inner
def give_up(serving: Serving, request: int, fate: int) -> None:
    """End a request of an application: nothing else of it needs to run."""
    requests, asked, from_outside = serving.requests, serving.asked, serving.totals[OUTSIDE]
    requests.fate[request] = fate
    application = requests.service[request] - len(serving.queues.waiting)
    first = asked.progress[request]
    last = first + serving.stages.first[application + 1] - serving.stages.first[application]
    for each in range(from_outside + asked.first[first], from_outside + asked.first[last]):
        if requests.fate[each] == PENDING and requests.arrival_s[each] < np.inf:
            requests.fate[each] = ABANDONED
            serving.queues.waiting[requests.service[each]] -= 1


@inner
def deadline_of(serving: Serving, each: int) -> float:
    """When an entry of `Requests` has to be answered, be it of a plain service or of a stage."""
    requests, stages, asked, from_outside = serving.requests, serving.stages, serving.asked, serving.totals[OUTSIDE]
    if each < from_outside:
        return deadline(requests.arrival_s[each], serving.turns.slo_s[requests.service[each]])
    request, stage = asked.request[each - from_outside], asked.stage[each - from_outside]
    application = requests.service[request] - len(serving.queues.waiting)
    return stage_deadline(requests.arrival_s[request], stages.slo_s[application], stages.rest_s[stage])
