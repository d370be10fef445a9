"""The front end: admits requests, lets the rules choose where they run, and answers when they have."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from time import monotonic

from gpuyard.core.application import Application
from gpuyard.core.ledger import Ledger
from gpuyard.core.service import Service
from gpuyard.policies.dispatch.layout import Layout, layout_of
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.serving.applications import Applications
from gpuyard.serving.batches import GONE, Batch, Unit, contents_of, row_of
from gpuyard.serving.dispatcher import Dispatcher
from gpuyard.serving.fleet import Fleet, Workers
from gpuyard.serving.frames import Ended, FrameKind, StartBatch, read_ended, read_number, run_frame
from gpuyard.serving.protocol.contract import Contract
from gpuyard.serving.protocol.errors import ProtocolError, Status
from gpuyard.serving.protocol.inference import InferRequest
from gpuyard.serving.slices import kept_slices, slice_plans
from gpuyard.serving.statistics import Refusal, ServiceStatistics
from gpuyard.serving.tickets import Done, Ticket, why_refused


@dataclass(frozen=True, eq=False)
class _Version:
    """A deployment as it is, or is about to be, served."""

    number: int
    deployment: Deployment
    layout: Layout
    missing: set[int]
    """GPUs that are not ready yet."""


class Front:
    """Between clients and GPU processes."""

    def __init__(
        self,
        services: Sequence[Service],
        contracts: dict[str, Contract],
        workers: Workers,
        *,
        prepare_s: float = 0.0,
        applications: Sequence[Application] = (),
    ) -> None:
        """`services` are all that there may be; a deployment may leave out those that nobody asks anything of."""
        self.services = {str(each.service_id): each for each in services}
        self.contracts = contracts
        names = [*self.services, *(each.name for each in applications)]
        self.statistics = {name: ServiceStatistics() for name in names}
        self._by_number = list(self.statistics.values())
        self._numbers = {each.service_id: number for number, each in enumerate(self.services.values())}
        self._index = {name: number for number, name in enumerate(self.services)}
        slo_s = [each.slo_ms / 1000.0 for each in self.services.values()]
        self._dispatcher = Dispatcher(slo_s, exact=workers.executor == "emulated")
        self._applications = Applications(
            applications, self._numbers, contracts, self._dispatcher, self._by_number,
            emulated=workers.executor == "emulated",
        )  # fmt: skip
        self._workers, self._prepare_s = workers, prepare_s
        self._running: dict[int, Batch] = {}
        self._now: _Version | None = None
        self._next: _Version | None = None
        self._next_number = 0
        self.ledger: Ledger | None = None
        """Which slices hold which parts of the GPUs; None before the first deployment."""
        self.fleet = Fleet(workers, self._on_frame, self._on_lost)
        self.draining = False
        self.on_change: Callable[[Deployment], None] = lambda _: None
        """Called with every deployment that has come into force."""
        self.on_unusable: Callable[[str], None] = lambda _: None
        """Called with why slices cannot get ready."""
        self.unloaded: set[str] = set()
        """Services that a client has switched off."""
        self.switches = 0

    @property
    def deployment(self) -> Deployment | None:
        """The one in force."""
        return None if self._now is None else self._now.deployment

    @property
    def changing(self) -> bool:
        """Whether another deployment is being prepared."""
        return self._next is not None

    @property
    def ready(self) -> bool:
        """Whether every GPU of the deployment is there."""
        return self._now is not None and not self._now.missing and not self.draining

    def deploy(self, deployment: Deployment) -> None:
        """Prepare slices while the present ones serve, and go over to them when all are ready."""
        layout = layout_of(deployment)
        kept = {new for _, new in kept_slices(self.deployment, deployment)}
        prepare_s = self._prepare_s if self._now is not None else 0.0
        times = {n: prepare_s for n in range(len(deployment.plan.slices)) if n not in kept}
        slices = slice_plans(deployment, layout, times)
        if self._next is not None:
            self.fleet.retire(self._next.number)
        self._next = _Version(self._next_number, deployment, layout, set(slices))
        self._next_number += 1
        self.fleet.prepare(self._next.number, slices)
        self._switch_if_ready()

    def _switch_if_ready(self) -> None:
        new = self._next
        if new is None or new.missing:
            return
        now, old = monotonic(), self._now
        kept = kept_slices(self.deployment, new.deployment)
        self._take(new.deployment)
        self._dispatcher.change(new.layout, [self._numbers[each.service_id] for each in new.deployment.services], kept)
        self._now, self._next = new, None
        self.switches += 1
        if old is not None:
            self.fleet.retire(old.number)
        for gpu in {int(each) for each in new.layout.slice_gpu}:
            self._run(self._dispatcher.gain(gpu, now))
        self._end_unneeded()
        self.on_change(new.deployment)

    def _take(self, deployment: Deployment) -> None:
        """Enter the slices of a deployment, in the place of those in force."""
        if self.ledger is None:
            self.ledger = deployment.ledger()
        before = self.deployment
        deployment.plan.take(self.ledger, instead_of=None if before is None else before.plan)

    def _end_unneeded(self) -> None:
        self.fleet.end_unneeded({batch.gpu for batch in self._running.values()})

    def contract(self, name: str) -> Contract:
        """What a model promises; raises if there is none of this name."""
        found = self.contracts.get(name)
        if found is None:
            raise ProtocolError(Status.UNKNOWN, f"model '{name}' is not there; there are: {', '.join(self.contracts)}")
        return found

    def unloaded_part(self, name: str) -> str | None:
        """A model itself, or a stage of an application, that a client has switched off; None if all are there."""
        application = self._applications.find(name)
        names = [name, *(application.names if application is not None else ())]
        return next((each for each in names if each in self.unloaded), None)

    def needed(self, request: InferRequest) -> InferRequest:
        """What has to be kept of a request that has been checked: emulated GPUs read no inputs."""
        return replace(request, inputs=()) if self._workers.executor == "emulated" else request

    def infer(self, request: InferRequest, done: Done) -> None:
        """Answer a request, now or later; `done` is called exactly once."""
        application, unloaded = self._applications.find(request.model), self.unloaded_part(request.model)
        if self.draining or unloaded is not None:
            self.statistics[request.model].turn_away()
            why = "the server is about to end" if self.draining else f"model '{unloaded}' is unloaded"
            done(ProtocolError(Status.UNAVAILABLE, why))
        elif application is not None:
            self._run(self._applications.begin(application, request, done, monotonic()))
            self._drop_late()
        else:
            self._infer(request, done)

    def _infer(self, request: InferRequest, done: Done) -> None:
        service = self._index[request.model]
        statistics = self._by_number[service]
        statistics.arrive(request.rows)
        if not self._dispatcher.admits(service, request.rows):
            statistics.refuse(Refusal.REFUSED)
            done(ProtocolError(Status.UNAVAILABLE, why_refused(request.model, [self._dispatcher.least_s[service]])))
            return
        now = monotonic()
        ticket = Ticket(
            request, self.contracts[request.model], service, now, time.time_ns() // 1_000_000, done, request.rows
        )  # fmt: skip
        self._run(self._dispatcher.arrive(service, [Unit(ticket, row, now) for row in range(request.rows)], now))
        self._drop_late()

    def _run(self, batches: Iterable[Batch]) -> None:
        version = self._now
        assert version is not None or not batches
        for batch in batches:
            assert version is not None
            self._running[batch.number] = batch
            contents = [] if self._workers.executor == "emulated" else contents_of(batch)
            run = StartBatch(version.number, batch.number, batch.turn, len(batch.units), batch.begins_s, contents)
            self.fleet.send(batch.gpu, run_frame(run))

    def tick(self) -> None:
        """Drop what has become hopeless while nothing else happened, and end processes that no longer answer."""
        now = monotonic()
        self._run(self._dispatcher.expire(now))
        self._drop_late()
        for gpu in {each.gpu for each in self._running.values() if now - each.ends_s > self._workers.stuck_s}:
            self.fleet.kill(gpu)

    def _drop_late(self) -> None:
        while late := self._dispatcher.take_late():
            for unit in late:
                self._fail(unit.ticket, Refusal.LATE, "waited too long to be answered within its SLO")

    def _fail(self, ticket: Ticket, why: Refusal, text: str) -> None:
        if ticket.over:
            return
        ticket.over = True
        if ticket.request.rows > 1:
            self._dispatcher.forget(ticket)
        self._by_number[ticket.service].refuse(why, monotonic() - ticket.arrived_s)
        status = Status.INTERNAL if why is Refusal.FAILED else Status.UNAVAILABLE
        ticket.done(ProtocolError(status, f"'{ticket.request.model}' {text}"))

    def _on_frame(self, gpu: int, kind: FrameKind, body: bytes) -> None:
        if kind is FrameKind.ENDED:
            self._on_ended(read_ended(body))
        elif kind is FrameKind.FAILED:
            self._on_failed(*read_number(body))
        elif kind is FrameKind.PREPARED:
            self._on_prepared(gpu, read_number(body)[0])
        elif kind is FrameKind.UNUSABLE:
            self.on_unusable(body.decode())

    def _on_prepared(self, gpu: int, number: int) -> None:
        for version in (self._now, self._next):
            if version is not None and version.number == number:
                version.missing.discard(gpu)
        if self._now is not None and self._now.number == number:
            self._run(self._dispatcher.gain(gpu, monotonic()))
        self._switch_if_ready()

    def _on_lost(self, gpu: int) -> None:
        """A process has died: what ran there waits again, and may run elsewhere."""
        for version in (self._now, self._next):
            if version is not None and gpu in version.layout.slice_gpu:
                version.missing.add(gpu)
        self._dispatcher.lose(gpu)
        lost = [batch for batch in self._running.values() if batch.gpu == gpu]
        for batch in sorted(lost, key=lambda each: -each.number):
            del self._running[batch.number]
            units = [unit for unit in batch.units if not unit.ticket.over]
            self._run(self._dispatcher.wait_again(batch.service, units, monotonic()))
        self._drop_late()

    def _on_ended(self, ended: Ended) -> None:
        batch = self._running.pop(ended.number)
        self._run(self._dispatcher.ended(batch, ended.ended_s, monotonic()))
        self._drop_late()
        self._by_number[batch.service].batches[len(batch.units)].add(ended.ended_s - ended.begun_s)
        for position, unit in enumerate(batch.units):
            self._finish(unit, position, batch, ended)
        self._run(self._applications.hand_on(ended.ended_s, monotonic()))
        self._drop_late()
        if batch.slice == GONE:
            self._end_unneeded()

    def _finish(self, unit: Unit, position: int, batch: Batch, ended: Ended) -> None:
        ticket: Ticket = unit.ticket
        if ticket.over:
            return
        outputs = row_of(ticket.contract, ended.contents, position) if ended.contents else None
        begins_s = batch.decided_s if batch.begins_s is None else batch.begins_s
        if ticket.finish_row(unit.row, outputs, max(begins_s - unit.arrived_s, 0.0), ended.ended_s - ended.begun_s):
            ticket.over = True
            self._answer(ticket)

    def _answer(self, ticket: Ticket) -> None:
        total_s = monotonic() - ticket.arrived_s
        statistics = self._by_number[ticket.service]
        statistics.answer(ticket.request.rows, ticket.queue_s, ticket.compute_s, total_s, ticket.wall_ms)
        ticket.done(ticket.answer())

    def _on_failed(self, number: int, why: str) -> None:
        batch = self._running.pop(number)
        self._run(self._dispatcher.ended(batch, monotonic(), monotonic()))
        for unit in batch.units:
            self._fail(unit.ticket, Refusal.FAILED, f"failed: {why}")
        self._drop_late()

    @property
    def pending(self) -> int:
        """Requests that are due an answer."""
        return sum(each.pending for each in self._by_number)
