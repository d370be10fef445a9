"""Requests of applications in the server: each row goes through the stages by the rules that the simulator has.

Every time that a stage is asked is a ticket of its own, which the front end treats like any other. When one is done,
its row may ask the next stages; when one fails, so does the whole request, and nothing else of it runs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from gpuyard.core.application import Application
from gpuyard.policies.dispatch.rules import stage_deadline
from gpuyard.policies.dispatch.stages import StageOrder, stage_order, times_asked
from gpuyard.serving.batches import Batch, Unit
from gpuyard.serving.dispatcher import Dispatcher
from gpuyard.serving.protocol.contract import Contract
from gpuyard.serving.protocol.errors import ProtocolError, Status
from gpuyard.serving.protocol.inference import InferAnswer, InferRequest
from gpuyard.serving.protocol.stage_tensors import fitted, last_stages, named, padded
from gpuyard.serving.protocol.tensors import Tensor
from gpuyard.serving.statistics import Refusal, ServiceStatistics
from gpuyard.serving.tickets import Done, Ticket, why_refused

ASKED = -1


@dataclass(eq=False)
class ServedApplication:
    """An application, with its stages by number."""

    application: Application
    order: StageOrder
    contract: Contract
    stages: tuple[Contract, ...]
    number: int
    """Among the statistics, behind all services."""
    seen: int = 0
    """Rows so far."""

    @property
    def names(self) -> list[str]:
        """Of the services that its stages are."""
        return [each.name for each in self.stages]


@dataclass(slots=True, eq=False)
class Row:
    """One row of a request on its way."""

    of: ServedApplication
    whole: Ticket
    row: int
    waits_for: list[int]
    """Of each stage: those before it that have not answered, or ASKED."""
    left: list[int]
    """How often each stage has still to answer."""
    given: list[list[tuple[Tensor, ...]]]
    """What each stage has answered, each time."""
    before_s: list[float]
    """Spent in batches until each stage was asked, on the longest way there."""
    compute_s: list[float]
    """The same until its answer."""
    stages_left: int

    @classmethod
    def of_request(cls, of: ServedApplication, whole: Ticket, row: int) -> Row:
        """A row for which no stage has been asked yet."""
        asked = [int(times_asked(of.seen, 1, n)[0]) for n in of.order.per_request]
        of.seen += 1
        count = len(asked)
        waits_for, given = list(of.order.before), [list[tuple[Tensor, ...]]() for _ in asked]
        return cls(of, whole, row, waits_for, asked, given, [0.0] * count, [0.0] * count, count)

    def answered(self, stage: int) -> None:
        """Let no stage wait for this one any more."""
        self.stages_left -= 1
        spent_s = max(self.before_s[stage], self.compute_s[stage])
        for other in self.of.order.behind[stage]:
            self.waits_for[other] -= 1
            self.before_s[other] = max(self.before_s[other], spent_s)


class Applications:
    """All applications of a server, and their requests that are on their way."""

    def __init__(
        self, applications: Sequence[Application], numbers: Mapping[int | str, int], contracts: Mapping[str, Contract],
        dispatcher: Dispatcher, statistics: list[ServiceStatistics], *, emulated: bool,
    ) -> None:  # fmt: skip
        """`statistics` are those of services and then of applications; emulated stages neither read nor give values."""
        self._dispatcher, self._statistics, self._emulated = dispatcher, statistics, emulated
        self._known: dict[str, ServedApplication] = {}
        for number, each in enumerate(applications, len(numbers)):
            stages = tuple(contracts[each.service_id(stage.name)] for stage in each.stages)
            order = stage_order(each, numbers)
            self._known[each.name] = ServedApplication(each, order, contracts[each.name], stages, number)
        self._further: list[Row] = []
        """Rows of which a stage has just answered."""

    def find(self, name: str) -> ServedApplication | None:
        """The application of this name, if there is one."""
        return self._known.get(name)

    def begin(self, of: ServedApplication, request: InferRequest, done: Done, now: float) -> list[Batch]:
        """Refuse a request, or let it wait for its first stages."""
        statistics = self._statistics[of.number]
        statistics.arrive(request.rows)
        whole = Ticket(request, of.contract, of.number, now, time.time_ns() // 1_000_000, done, request.rows)
        rows = [Row.of_request(of, whole, row) for row in range(request.rows)]
        for row in rows:
            for service, count in zip(of.order.services, row.left, strict=True):
                self._statistics[service].rows_arrived += count  # what its plan has to reckon with
        if not all(self._ask(row, now) for row in rows):
            least_s = [self._dispatcher.least_s[service] for service in of.order.services]
            self._end(whole, Refusal.REFUSED, why_refused(request.model, least_s))
        return self._start(of, now)

    def hand_on(self, ended_s: float, now: float) -> list[Batch]:
        """Let the rows go on of which a stage has answered since this was last called."""
        rows, self._further = self._further, []
        for row in rows:
            if not row.whole.over and not self._ask(row, ended_s):
                self._end(
                    row.whole, Refusal.LATE, f"'{row.of.contract.name}' could no longer be answered within its SLO"
                )
        return [batch for of in {row.of.number: row.of for row in rows}.values() for batch in self._start(of, now)]

    def _start(self, of: ServedApplication, now: float) -> list[Batch]:
        return [batch for service in of.order.services for batch in self._dispatcher.start_idle(service, now)]

    def _ask(self, row: Row, now: float) -> bool:
        """Ask every stage for which nothing is missing any more; False if one could not answer in time."""
        order = row.of.order
        rest_s = order.rest_s(self._dispatcher.least_s)
        for stage, service in enumerate(order.services):
            if row.waits_for[stage] != 0:
                continue
            row.waits_for[stage] = ASKED
            if not row.left[stage]:
                row.answered(stage)
                continue
            due_s = stage_deadline(row.whole.arrived_s, order.slo_s, rest_s[stage])
            if not self._dispatcher.admits_by(service, row.left[stage], due_s, now):
                return False
            tickets = [self._ticket(row, stage, time, now) for time in range(row.left[stage])]
            units = [Unit(each, 0, now, due_s, whole=row.whole) for each in tickets]
            self._dispatcher.let_wait(service, units)
        if not row.stages_left:
            self._finish(row, now)
        return True

    def _ticket(self, row: Row, stage: int, which: int, now: float) -> Ticket:
        """One time that a stage is asked."""
        contract, service = row.of.stages[stage], row.of.order.services[stage]
        self._statistics[service].ask()
        request = InferRequest(contract.name, 1, () if self._emulated else self._inputs(row, stage))
        done = partial(self._answered, row, stage, which)
        return Ticket(request, contract, service, now, row.whole.wall_ms, done, 1)

    def _inputs(self, row: Row, stage: int) -> tuple[Tensor, ...]:
        """The request's own of a first stage; else what the stages before it gave, made to fit."""
        own, contract = row.of.application.stages[stage], row.of.stages[stage]
        if own.after:
            place = {each.name: number for number, each in enumerate(row.of.application.stages)}
            given = [tensor for name in own.after for one in row.given[place[name]] for tensor in one]
            return tuple(fitted(given, spec) for spec in contract.inputs)
        inputs = {each.name: each for each in row.whole.request.inputs}
        return tuple(
            Tensor(spec.name, spec.datatype, (1, *spec.shape),
                   inputs[named(own, spec).name].content[row.row * spec.row_bytes : (row.row + 1) * spec.row_bytes])
            for spec in contract.inputs
        )  # fmt: skip

    def _answered(self, row: Row, stage: int, which: int, result: InferAnswer | ProtocolError) -> None:
        if row.whole.over:
            return
        if isinstance(result, ProtocolError):
            why = Refusal.FAILED if result.status is Status.INTERNAL else Refusal.LATE
            self._end(row.whole, why, f"'{row.of.contract.name}' has no answer: stage {result}")
            return
        if not self._emulated:
            row.given[stage] = row.given[stage] or [()] * row.left[stage]
            row.given[stage][which] = result.outputs
        row.compute_s[stage] = max(row.compute_s[stage], row.before_s[stage] + result.timing.compute_s)
        row.left[stage] -= 1
        if not row.left[stage]:
            row.answered(stage)
            self._further.append(row)

    def _finish(self, row: Row, now: float) -> None:
        """All stages of a row have answered; those of the last row answer the request."""
        whole, compute_s = row.whole, max(row.compute_s)
        outputs = None if self._emulated else self._outputs(row)
        if whole.finish_row(row.row, outputs, max(now - whole.arrived_s - compute_s, 0.0), compute_s):
            whole.over = True
            total_s = max(now, time.monotonic()) - whole.arrived_s
            statistics = self._statistics[row.of.number]
            statistics.answer(whole.request.rows, whole.queue_s, whole.compute_s, total_s, whole.wall_ms)
            whole.done(whole.answer())

    @staticmethod
    def _outputs(row: Row) -> list[bytes]:
        """What the last stages gave; nothing, of one that was not asked, is zeros."""
        place = {each.name: number for number, each in enumerate(row.of.application.stages)}
        found, specs = [], iter(row.of.contract.outputs)
        for stage in last_stages(row.of.application):
            for position in range(len(row.of.stages[place[stage.name]].outputs)):
                content = b"".join(bytes(one[position].content) for one in row.given[place[stage.name]])
                found.append(padded(content, next(specs).row_bytes))
        return found

    def _end(self, whole: Ticket, why: Refusal, text: str) -> None:
        """Answer a request without a result, and let nothing of it wait any longer."""
        whole.over = True
        self._dispatcher.forget_parts(whole)
        self._statistics[whole.service].refuse(why, max(time.monotonic() - whole.arrived_s, 0.0))
        whole.done(ProtocolError(Status.INTERNAL if why is Refusal.FAILED else Status.UNAVAILABLE, text))
