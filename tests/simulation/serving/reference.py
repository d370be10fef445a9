"""Serving as slowly and plainly as can be: objects, a heap of events, latencies asked for one by one."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from gpuyard.policies.partition import Slice
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.latency import Running
from gpuyard.traces.arrivals import Arrivals

ROUNDING = 1e-6
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
        names = arrivals.services
        pairs = zip(arrivals.times_s.tolist(), arrivals.service.tolist(), strict=True)
        self.requests = [Request(number, names[which], time) for number, (time, which) in enumerate(pairs)]
        self.queues: dict[Any, list[Request]] = {each.service_id: [] for each in deployment.services}
        self.places = [Place(number, part) for number, part in enumerate(deployment.plan.slices)]
        for place in self.places:
            where = (place.part.node, place.part.gpu)
            place.neighbours = [
                other for other in self.places if other is not place and (other.part.node, other.part.gpu) == where
            ]
        self.events: list[Any] = []
        self.ticket = count()

    def run(self) -> list[Request]:
        for request in self.requests:
            heapq.heappush(self.events, (request.arrival, ARRIVAL, request.number, 0, request))
        while self.events:
            now, kind, _, version, what = heapq.heappop(self.events)
            if kind == ARRIVAL:
                self.arrive(what, now)
            elif version == what.version and what.batch is not None:
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
        turns, queue = self.turns_of(request.service), self.queues[request.service]
        slo = self.deployment.service[request.service].slo_ms / 1000 * (1 + ROUNDING)
        sizes = [place.part.turns[k].batch for place, k in turns]
        pace = sum(size / self.planned(place, k, size) for size, (place, k) in zip(sizes, turns, strict=True))
        least = min((self.planned(place, k, 1) for place, k in turns), default=0.0)
        if not turns or max(len(queue) + 1 - sum(sizes), 0) / pace + least > slo:
            request.outcome = "refused"
            return
        queue.append(request)
        for place, _ in sorted(turns, key=lambda turn: (self.planned(turn[0], turn[1], 1), turn[0].number)):
            if place.batch is None and self.begin(place, now):
                return

    def end(self, place: Place, now: float) -> None:
        assert place.batch is not None
        for request in place.batch.requests:
            late = now - request.arrival > self.deployment.service[request.service].slo_ms / 1000 * (1 + ROUNDING)
            request.finish, request.outcome = now, "late" if late else "served"
        place.batch = None
        self.begin(place, now)
        self.pace(place, now)

    def begin(self, place: Place, now: float) -> bool:
        turns = place.part.turns
        before = place.latest
        for step in range(1, len(turns) + 1):
            turn = (before + step) % len(turns)
            queue = self.queues[turns[turn].service]
            while queue:
                place.latest = turn
                size = min(len(queue), turns[turn].batch)
                slo = self.deployment.service[queue[0].service].slo_ms / 1000
                if now + self.planned(place, turn, size) <= queue[0].arrival + slo * (1 + ROUNDING):
                    self.run_batch(place, queue[:size], now)
                    del queue[:size]
                    return True
                queue.pop(0).outcome = "dropped"
        return False

    def run_batch(self, place: Place, requests: list[Request], now: float) -> None:
        running = self.running(place, place.latest, len(requests))
        latency = self.latency(place)
        raw = latency.raw_ms(*running) / 1000 * self.buffer
        alone = raw + latency.gathering_ms(running.model, running.batch) / 1000 * self.buffer
        for request in requests:
            request.start, request.slice = now, place.number
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
