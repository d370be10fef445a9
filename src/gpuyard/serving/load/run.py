"""A whole load: asks the server what its models take, sends the requests, and gathers what became of them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

import numpy as np

from gpuyard.core.arguments import MOST_SERVED, check_name, check_number
from gpuyard.core.arrays import Ints
from gpuyard.core.errors import GpuyardError, InputError
from gpuyard.serving.load.agreement import compare
from gpuyard.serving.load.client import ClientTask
from gpuyard.serving.load.clients import Watch, run_clients
from gpuyard.serving.load.figures import SentRequests, figures
from gpuyard.serving.load.inputs import grpc_message, http_message, make_tensor
from gpuyard.serving.load.log import Notes
from gpuyard.serving.load.questions import Answers, Counted, answers_of, unknown_model
from gpuyard.serving.load.target import Target
from gpuyard.traces.arrivals import Arrivals, ServiceId

ALL = "all"
"""The row of all models together."""
CHANNELS = 8
"""Of a client that speaks gRPC, at most: each takes many requests at once."""


@dataclass(frozen=True)
class LoadedModel:
    """A model of the server that gets requests."""

    service: ServiceId
    """Whose requests in the arrivals are for it."""
    slo_ms: float | None = None
    rate_per_s: float = 0.0
    """Asked for; 0 where requests are not by a rate."""

    def __post_init__(self) -> None:
        check_name(self.name, "model")
        check_number(self.rate_per_s, f"rate of {self.name}", least=0, most=MOST_SERVED)
        if self.slo_ms is not None:
            check_number(self.slo_ms, "slo", least=1e-9, most=MOST_SERVED)

    @property
    def name(self) -> str:
        """What the server calls it."""
        return str(self.service)


@dataclass(frozen=True)
class LoadOptions:
    """How a load is sent."""

    clients: int = 1
    """Processes."""
    connections: int = 512
    """Of all clients together, at most; channels where the protocol is gRPC."""
    timeout_s: float = 30.0
    """A request that is not answered so long after it was due has failed."""
    batch: int = 1
    """Rows of each request."""
    as_json: bool = False
    """Tensors as numbers in JSON, for servers that do not take bytes."""
    check: bool = False
    """Compare with the server's own statistics."""

    def __post_init__(self) -> None:
        for name in ("clients", "connections", "batch"):
            check_number(getattr(self, name), name, least=1, most=65_536, whole=True)
        check_number(self.timeout_s, "timeout", least=0.001, most=MOST_SERVED / 1000)


@dataclass(frozen=True, eq=False)
class LoadResult:
    """What a server made of a load."""

    target: Target
    asked: tuple[LoadedModel, ...]
    requests: SentRequests
    seconds: float
    """How long requests were due."""
    timeout_s: float
    interrupted: bool = False
    compared: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By model, the server's statistics beside ours."""
    unchecked: str | None = None
    """Why they could not be had at the end, though they were asked for."""

    @property
    def duration_s(self) -> float:
        """From the start to the end of the load or to the last answer, whichever is later."""
        last = float(np.nanmax(self.requests.ended_s, initial=0.0))
        return last if self.interrupted and last else max(self.seconds, last)

    @property
    def slos_ms(self) -> list[float | None]:
        """Of each model."""
        return [each.slo_ms for each in self.asked]

    def rows(self) -> list[dict[str, Any]]:
        """The figures of each model, and of all where there are several."""
        found = [
            {"model": each.name, "slo_ms": each.slo_ms}
            | figures(self.requests.under(self.requests.kind == place), self.slos_ms, self.duration_s)
            | self.compared.get(each.name, {})
            for place, each in enumerate(self.asked)
        ]
        if len(self.asked) > 1:
            found.append({"model": ALL, "slo_ms": None} | figures(self.requests, self.slos_ms, self.duration_s))
        return found


def run_load(
    target: Target,
    asked: Sequence[LoadedModel],
    arrivals: Arrivals,
    seconds: float,
    options: LoadOptions | None = None,
    *,
    watch: Watch = lambda _come, _ended: None,
) -> LoadResult:
    """Send requests to a server, each when it is due; raises GpuyardError if the server cannot be reached."""
    options = options or LoadOptions()
    answers = answers_of(target)
    messages = tuple(_message(target, answers, each, options) for each in asked)
    before = [_counted(answers, each) for each in asked] if options.check else []
    place = {each.service: position for position, each in enumerate(asked)}
    kinds = np.array([place[service] for service in arrivals.services], dtype=np.int64)[arrivals.service]
    tasks = _tasks(target, messages, arrivals, kinds, asked, options)
    notes, interrupted = run_clients(tasks, watch)
    gathered = _gathered(arrivals, kinds, notes)
    result = LoadResult(target, tuple(asked), gathered, seconds, options.timeout_s, interrupted)
    return _compared(result, answers, before, options.batch) if before else result


def _message(target: Target, answers: Answers, asked: LoadedModel, options: LoadOptions) -> bytes:
    inputs = answers.inputs(asked.name)
    if inputs is None:
        raise unknown_model(answers, asked.name)
    tensors = [make_tensor(*each, options.batch) for each in inputs]
    if target.grpc:
        return grpc_message(asked.name, tensors)
    return http_message(target, asked.name, tensors, as_json=options.as_json)


def _counted(answers: Answers, asked: LoadedModel) -> Counted:
    found = answers.counted(asked.name)
    if found is None:
        rule = f"cannot be checked: the server keeps no statistics of {asked.name}"
        raise InputError(rule, field="check", value=True)
    return found


def _tasks(
    target: Target,
    messages: tuple[bytes, ...],
    arrivals: Arrivals,
    kinds: Ints,
    asked: Sequence[LoadedModel],
    options: LoadOptions,
) -> list[ClientTask]:
    """Requests are dealt to the clients in turn."""
    count = min(options.clients, max(len(arrivals), 1))
    most = max(options.connections // count, 1)
    rate = len(arrivals) / max(float(arrivals.times_s[-1]), 1e-3) / count if len(arrivals) else 0.0
    longest_s = min(max((each.slo_ms or 0.0 for each in asked), default=0.0) / 1000, 0.1)
    return [
        ClientTask(
            target, messages, array("d", arrivals.times_s[turn::count]), array("q", kinds[turn::count]),
            min(most, CHANNELS) if target.grpc else most, ceil(rate * longest_s) + 1, options.timeout_s,
        )
        for turn in range(count)
    ]  # fmt: skip


def _gathered(arrivals: Arrivals, kinds: Ints, notes: Sequence[Notes]) -> SentRequests:
    """What all clients noted, in the order of arrival."""
    count, turns = len(arrivals), len(notes)
    sent_s, ended_s, status = np.empty(count), np.empty(count), np.empty(count, dtype=np.int64)
    for turn, each in enumerate(notes):
        sent_s[turn::turns], ended_s[turn::turns], status[turn::turns] = each.sent_s, each.ended_s, each.status
    return SentRequests(kinds, arrivals.times_s, sent_s, ended_s, status)


def _compared(result: LoadResult, answers: Answers, before: Sequence[Counted], batch: int) -> LoadResult:
    """A server that is gone at the end takes nothing away from what it did before."""
    try:
        after = [_counted(answers, each) for each in result.asked]
    except GpuyardError as error:
        return replace(result, unchecked=str(error))
    found = {row["model"]: row for row in result.rows()}
    counts = zip(result.asked, before, after, strict=True)
    compared = {each.name: compare(found[each.name], first, last, batch) for each, first, last in counts}
    return replace(result, compared=compared)
