"""The simulated server: slices of one deployment, and how they give way to those of the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gpuyard.core.application import Application
from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.errors import InputError, nearest
from gpuyard.core.service import Service
from gpuyard.policies.dispatch.layout import Layout, layout_of
from gpuyard.policies.dispatch.stages import stage_order
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.interface import Slice
from gpuyard.simulation.serving.events import advance, wake
from gpuyard.simulation.serving.stages import stage_requests, stages_of
from gpuyard.simulation.serving.state import (
    ARRIVED,
    BEGUN,
    EXPECTED,
    IDLE,
    Queues,
    Requests,
    RunningBatches,
    Serving,
    Slices,
    Turns,
    gpus_of,
    new_batches,
    new_queues,
    new_requests,
    new_slices,
    tree_of,
)
from gpuyard.traces.arrivals import Arrivals


@dataclass
class Span:
    """A slice as long as it stays the same: where it was, what it served and when."""

    part: Slice
    gpu: int
    """Counted through all nodes."""
    start_s: float
    end_s: float = np.inf
    """When it took no more requests; what it had begun it ended."""


@dataclass
class SimulatedServer:
    """Requests of services and applications, on the slices of a deployment that may change."""

    services: tuple[Service, ...]
    deployment: Deployment
    arrival_s: Floats
    service: Ints
    """Of each request, a position in `services`, or behind these one in `applications`."""
    buffer: float = 1.0
    """Factor on all latencies in truth."""
    applications: tuple[Application, ...] = ()
    """Whose stages are among the services."""
    now_s: float = 0.0
    spans: list[Span] = field(default_factory=list)

    def __post_init__(self) -> None:
        numbers = {each.service_id: number for number, each in enumerate(self.services)}
        self.orders = [stage_order(each, numbers) for each in self.applications]
        self.asked, asked_service = stage_requests(self.orders, self.service - len(self.services))
        self.requests: Requests = new_requests(self.arrival_s, self.service, asked_service)
        self.queues: Queues = new_queues(self.requests.service, len(self.services))
        self.batches: RunningBatches = new_batches(len(self.requests.service))
        self._totals = np.array([0, 0, len(self.arrival_s), len(self.arrival_s)], dtype=np.int64)
        self.ledger = self.deployment.ledger()
        self.deployment.plan.take(self.ledger)
        self._slices = [self._span(part) for part in self.deployment.plan.slices]
        self.serving = self._serving(
            self._layout(), np.array(self._slices, dtype=np.int64), np.zeros(len(self._slices), np.int8)
        )

    def run_until(self, instant_s: float) -> None:
        """Let everything happen up to and including an instant."""
        advance(self.serving, instant_s)
        self.now_s = instant_s

    @property
    def arrived(self) -> int:
        """Requests that have arrived so far."""
        return int(self._totals[ARRIVED])

    @property
    def begun(self) -> int:
        """Batches that have begun so far."""
        return int(self._totals[BEGUN])

    @property
    def expected(self) -> int:
        """Requests that are let in, if they come."""
        return int(self._totals[EXPECTED])

    def arrival_of(self, request: int) -> float:
        """When a request arrives; of one beyond the last, that of the last."""
        return float(self.arrival_s[min(request, len(self.arrival_s) - 1)])

    def admit_no_more(self) -> None:
        """Forget the requests that have not arrived yet."""
        self._totals[EXPECTED] = self.arrived

    def needs_preparation(self, new: Deployment) -> bool:
        """Whether a deployment has slices that are not there yet."""
        return any(before is None for before in self._kept(new))

    def switch(self, new: Deployment) -> None:
        """Serve on the slices of another deployment from now on.

        A slice of the same size with the same services goes on as it is. The others' batches are run to their end, and
        a new slice begins when its GPU has none of these left. Whoever waits, waits for the new slices.
        """
        new.plan.take(self.ledger, instead_of=self.deployment.plan)
        kept, old = self._kept(new), self.serving.slices
        self.deployment, before = new, self._slices
        self._slices = self._follow(kept, before)
        stay = {number for number in kept if number is not None}
        leaving = [
            number for number in range(len(old.batch)) if number not in stay and old.batch[number] != IDLE
        ]  # fmt: skip
        spans = np.array([*self._slices, *old.span[leaving]], dtype=np.int64)
        fresh = np.array([number is None for number in kept] + [False] * len(leaving), dtype=np.int8)
        self.serving = self._serving(self._layout(), spans, fresh)
        for number, source in enumerate([*kept, *leaving]):
            if source is not None:
                _carry_over(old, source, self.serving.slices, number)
        np.add.at(self.serving.gpus.draining, old.gpu[leaving], 1)
        self.serving = self.serving._replace(soonest=tree_of(self.serving.slices.end_s))
        wake(self.serving, self.now_s)

    def close(self) -> None:
        """Let all that was begun end."""
        self.run_until(np.inf)
        for number in self._slices:
            self.spans[number].end_s = self.end_s

    @property
    def end_s(self) -> float:
        """When the last batch ended or the last request arrived."""
        finish_s, arrival_s = self.batches.finish_s[: self.begun], self.arrival_s[: self.expected]
        return float(max(finish_s.max(initial=0.0), arrival_s.max(initial=0.0)))

    def _span(self, part: Slice) -> int:
        self.spans.append(Span(part, self.deployment.gpu_number(part), self.now_s))
        return len(self.spans) - 1

    def _layout(self) -> Layout:
        return layout_of(self.deployment, self.buffer, self.services)

    def _kept(self, new: Deployment) -> list[int | None]:
        """For each new slice the present one, on the same GPU, as large and with the same services, if there is one."""
        there: dict[object, list[int]] = {}
        for number, span in enumerate(self._slices):
            there.setdefault(_identity(self.spans[span].part), []).append(number)
        found = [there.get(_identity(part), []) for part in new.plan.slices]
        return [places.pop(0) if places else None for places in found]

    def _follow(self, kept: Sequence[int | None], before: Sequence[int]) -> list[int]:
        """Spans of the new slices: one that stays just as it is keeps its span, and all others end here."""
        found = []
        for source, part in zip(kept, self.deployment.plan.slices, strict=True):
            same = source is not None and _turns(self.spans[before[source]].part) == _turns(part)
            found.append(before[source] if same and source is not None else self._span(part))
        for span in set(before) - set(found):
            self.spans[span].end_s = self.now_s
        return found

    def _serving(self, layout: Layout, spans: Ints, fresh: np.ndarray[tuple[int], np.dtype[np.int8]]) -> Serving:
        """State with nothing running; spans beyond the layout's slices are of slices without turns."""
        gpu = np.array([self.spans[span].gpu for span in spans], dtype=np.int64)
        beyond = len(spans) - len(layout.slice_gpu)
        first = np.concatenate([layout.slice_first, np.full(beyond, layout.slice_first[-1])])
        slices = new_slices(gpu, spans, first[1:] - 1, fresh)
        turns = Turns(**{name: getattr(layout, name) for name in Turns._fields} | {"slice_first": first})
        gpus = gpus_of(gpu, int(self.deployment.cluster.node_gpus.sum()))
        return Serving(
            turns, self.requests, self.queues, slices, gpus, self.batches, tree_of(slices.end_s), self._totals,
            stages_of(self.orders, layout.least_s), self.asked,
        )  # fmt: skip


def open_server(deployment: Deployment, arrivals: Arrivals, buffer: float = 1.0) -> SimulatedServer:
    """A server that has not seen its requests yet; raises InputError for those of a service that is not deployed."""
    names = [*(each.service_id for each in deployment.services), *(each.name for each in deployment.applications)]
    numbers = {name: number for number, name in enumerate(names)}
    for name in arrivals.services:
        if name not in numbers:
            hint = nearest(str(name), [str(each) for each in numbers])
            raise InputError("has requests, but is not deployed", field="service", value=name, hint=hint)
    own = np.array([numbers[name] for name in arrivals.services], dtype=np.int64)
    return SimulatedServer(
        deployment.services, deployment, arrivals.times_s, own[arrivals.service], buffer, deployment.applications
    )


def _identity(part: Slice) -> object:
    return part.node, part.gpu, part.thousandths, frozenset(turn.service for turn in part.turns)


def _turns(part: Slice) -> list[tuple[int | str, int]]:
    return [(turn.service, turn.batch) for turn in part.turns]


def _carry_over(old: Slices, source: int, new: Slices, number: int) -> None:
    """Let a slice go on with the batch that it runs."""
    for name in ("batch", "place", "end_s", "left_s", "since_s", "slowdown", "alone_s", "raw_s", "own", "pressure"):
        getattr(new, name)[number] = getattr(old, name)[source]
