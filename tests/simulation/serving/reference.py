"""Serving as slowly and plainly as can be: objects, a heap of events, latencies asked for one by one."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import count
from math import floor, inf
from typing import Any

from gpuyard.core.application import Application
from gpuyard.policies.partition import Slice
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.latency import Running
from gpuyard.traces.arrivals import Arrivals

ROUNDING = 1e-6
HAIR_S = 1e-9
END, ARRIVAL = 0, 1


@dataclass(eq=False)
class Request:
    number: int
    service: int | str
    arrival: float
    outcome: str = "waiting"
    start: float | None = None
    finish: float | None = None
    slice: int | None = None
    whole: Whole | None = None
    stage: str = ""


@dataclass(eq=False)
class Whole(Request):
    """A request of an application."""

    answered: set[str] = field(default_factory=set)
    asked: dict[str, list[Request]] = field(default_factory=dict)


@dataclass(eq=False)
class Batch:
    requests: list[Request]
    running: Running
    alone: float
    raw: float
    done: float = 0.0
    """Of the time that it takes alone."""
    slowdown: float = 1.0
    seen: float = 0.0


@dataclass(eq=False)
class Place:
    number: int
    part: Slice
    neighbours: list[Place] = field(default_factory=list)
    latest: int = -1
    batch: Batch | None = None
    version: int = 0


class Reference:
    def __init__(self, deployment: Deployment, arrivals: Arrivals, buffer: float) -> None:
        self.deployment, self.buffer = deployment, buffer
        self.applications = {each.name: each for each in deployment.applications}
        self.seen = dict.fromkeys(self.applications, 0)
        names = arrivals.services
        pairs = zip(arrivals.times_s.tolist(), arrivals.service.tolist(), strict=True)
        self.requests = [
            (Whole if names[which] in self.applications else Request)(number, names[which], time)
            for number, (time, which) in enumerate(pairs)
        ]
        self.queues: dict[Any, list[Request]] = {each.service_id: [] for each in deployment.services}
        self.places = [Place(number, part) for number, part in enumerate(deployment.plan.slices)]
        for place in self.places:
            where = (place.part.node, place.part.gpu)
            place.neighbours = [
                other for other in self.places if other is not place and (other.part.node, other.part.gpu) == where
            ]
        self.events: list[Any] = []
        self.ticket = count()
        self.ended_s = -inf
        self.by_a_hair = False
        """Whether two batches ended at one instant but for rounding, which then decides who is next."""

    def run(self) -> list[Request]:
        for request in self.requests:
            heapq.heappush(self.events, (request.arrival, ARRIVAL, request.number, 0, request))
        while self.events:
            now, kind, _, version, what = heapq.heappop(self.events)
            if kind == ARRIVAL and isinstance(what, Whole):
                self.arrive_whole(what, now)
            elif kind == ARRIVAL:
                self.arrive(what, now)
            elif version == what.version and what.batch is not None:
                self.by_a_hair = self.by_a_hair or 0.0 < now - self.ended_s < HAIR_S
                self.ended_s = now
                self.end(what, now)
        return self.requests

    def latency(self, place: Place) -> Any:
        return self.deployment.latency[self.deployment.gpu_type(place.part)]

    def planned(self, place: Place, turn: int, size: int) -> float:
        others = [
            self.running(other, k, other.part.turns[k].batch)
            for other in place.neighbours
            for k in range(len(other.part.turns))
        ]
        return float(self.latency(place).beside_ms(*self.running(place, turn, size), others)) / 1000

    def running(self, place: Place, turn: int, size: int) -> Running:
        model = self.deployment.service[place.part.turns[turn].service].model
        return Running(model, size, place.part.thousandths // 10)

    def turns_of(self, service: int | str) -> list[tuple[Place, int]]:
        every = [(place, k, turn) for place in self.places for k, turn in enumerate(place.part.turns)]
        return [(place, k) for place, k, turn in every if turn.service == service]

    def arrive(self, request: Request, now: float) -> None:
        if not self.can_answer(request, 1, now):
            request.outcome = "refused"
            return
        self.queues[request.service].append(request)
        self.wake(request.service, now)

    def can_answer(self, request: Request, count: int, now: float) -> bool:
        """Whether so many more of these would all be in time if all slices began with them now."""
        turns, queue = self.turns_of(request.service), self.queues[request.service]
        sizes = [place.part.turns[k].batch for place, k in turns]
        pace = sum(size / self.planned(place, k, size) for size, (place, k) in zip(sizes, turns, strict=True))
        ahead = max(len(queue) + count - sum(sizes), 0) / pace if turns else 0.0
        return bool(turns) and now + ahead + self.least(request.service) <= self.due(request)

    def wake(self, service: int | str, now: float) -> None:
        turns = self.turns_of(service)
        for place, _ in sorted(turns, key=lambda turn: (self.planned(turn[0], turn[1], 1), turn[0].number)):
            if self.queues[service] and place.batch is None:
                self.begin(place, now)

    def least(self, service: int | str) -> float:
        return min((self.planned(place, k, 1) for place, k in self.turns_of(service)), default=inf)

    def due(self, request: Request) -> float:
        """When a request has to be answered; of a stage, so that those behind it can still be in time."""
        if request.whole is None:
            return request.arrival + self.deployment.service[request.service].slo_ms / 1000 * (1 + ROUNDING)
        application = self.applications[str(request.whole.service)]
        return (
            request.whole.arrival + application.slo_ms / 1000 * (1 + ROUNDING) - self.rest(application, request.stage)
        )

    def rest(self, application: Application, stage: str) -> float:
        behind = [each for each in application.stages if stage in each.after]
        least = {each.name: self.least(application.service_id(each.name)) if each.per_request >= 1 else 0.0
                 for each in behind}  # fmt: skip
        return max((least[each.name] + self.rest(application, each.name) for each in behind), default=0.0)

    def arrive_whole(self, whole: Whole, now: float) -> None:
        application = self.applications[str(whole.service)]
        number = self.seen[application.name]
        self.seen[application.name] += 1
        for stage in application.stages:
            count = floor((number + 1) * stage.per_request) - floor(number * stage.per_request)
            name = application.service_id(stage.name)
            whole.asked[stage.name] = [
                Request(-1, name, inf, whole=whole, stage=stage.name) for _ in range(count)
            ]  # fmt: skip
        if self.ask(whole, now):
            self.wake_stages(application, now)
        else:
            self.give_up(whole, "refused")

    def ask(self, whole: Whole, now: float) -> bool:
        """Ask the stages that can be asked now; those that are asked nothing have answered."""
        application = self.applications[str(whole.service)]
        for stage in application.stages:
            asked = whole.asked[stage.name]
            begun = stage.name in whole.answered or any(each.arrival < inf for each in asked)
            if begun or not set(stage.after) <= whole.answered:
                continue
            if not asked:
                whole.answered.add(stage.name)
                continue
            able = self.can_answer(asked[0], len(asked), now)
            for each in asked:
                each.arrival, each.outcome = now, "waiting" if able else "refused"
            if not able:
                return False
            self.queues[asked[0].service] += asked
        if len(whole.answered) == len(application.stages):
            late = now - whole.arrival > application.slo_ms / 1000 * (1 + ROUNDING)
            whole.finish, whole.outcome = now, "late" if late else "served"
            whole.start = now if whole.start is None else whole.start  # nothing was asked
        return True

    def wake_stages(self, application: Application, now: float) -> None:
        for stage in application.stages:
            self.wake(application.service_id(stage.name), now)

    def give_up(self, whole: Whole, outcome: str) -> None:
        whole.outcome = outcome
        for each in [one for asked in whole.asked.values() for one in asked if one.outcome == "waiting"]:
            if each.arrival < inf and each in self.queues[each.service]:
                self.queues[each.service].remove(each)
                each.outcome = "dropped"

    def end(self, place: Place, now: float) -> None:
        assert place.batch is not None
        ended = place.batch.requests
        for request in ended:
            since, slo = request.arrival, self.deployment.service[request.service].slo_ms
            if request.whole is not None:
                since, slo = request.whole.arrival, self.applications[str(request.whole.service)].slo_ms
            late = now - since > slo / 1000 * (1 + ROUNDING)
            request.finish, request.outcome = now, "late" if late else "served"
        place.batch = None
        self.begin(place, now)
        self.pace(place, now)
        self.hand_on([each for each in ended if each.whole is not None], now)

    def hand_on(self, ended: list[Request], now: float) -> None:
        for request in ended:
            whole = request.whole
            assert whole is not None
            if whole.outcome != "waiting" or any(each.finish is None for each in whole.asked[request.stage]):
                continue
            if request.stage not in whole.answered:
                whole.answered.add(request.stage)
                if not self.ask(whole, now):
                    self.give_up(whole, "dropped")
        for application in {str(each.whole.service): None for each in ended if each.whole is not None}:
            self.wake_stages(self.applications[application], now)

    def begin(self, place: Place, now: float) -> bool:
        turns = place.part.turns
        before = place.latest
        for step in range(1, len(turns) + 1):
            turn = (before + step) % len(turns)
            queue = self.queues[turns[turn].service]
            while queue:
                place.latest = turn
                size = min(len(queue), turns[turn].batch)
                if now + self.planned(place, turn, size) <= self.due(queue[0]):
                    self.run_batch(place, queue[:size], now)
                    del queue[:size]
                    return True
                dropped = queue.pop(0)
                dropped.outcome = "dropped"
                if dropped.whole is not None:
                    self.give_up(dropped.whole, "dropped")
        return False

    def run_batch(self, place: Place, requests: list[Request], now: float) -> None:
        running = self.running(place, place.latest, len(requests))
        latency = self.latency(place)
        raw = latency.raw_ms(*running) / 1000 * self.buffer
        alone = raw + latency.gathering_ms(running.model, running.batch) / 1000 * self.buffer
        for request in requests:
            request.start, request.slice = now, place.number
            if request.whole is not None and request.whole.start is None:
                request.whole.start = now
        place.batch = Batch(requests, running, alone, raw, seen=now)
        self.pace(place, now)

    def pace(self, changed: Place, now: float) -> None:
        for place in (changed, *changed.neighbours):
            if place.batch is None:
                continue
            batch = place.batch
            batch.done += (now - batch.seen) / batch.slowdown
            batch.seen = now
            beside = [other.batch.running for other in place.neighbours if other.batch is not None]
            factor = self.latency(place).factor(batch.running, beside)
            batch.slowdown = (batch.alone + batch.raw * (factor - 1)) / batch.alone
            place.version = next(self.ticket)
            end = now + (batch.alone - batch.done) * batch.slowdown
            heapq.heappush(self.events, (end, END, place.number, place.version, place))
