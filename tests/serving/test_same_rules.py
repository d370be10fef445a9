"""Dispatcher and emulated GPUs, on a clock that jumps, do what the simulator does: request by request, to the digit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from math import inf
from typing import Any, NamedTuple

import pytest
from tests.simulation.serving.builders import deployed, part, steady

from gpuyard.core.application import Application, Stage
from gpuyard.core.service import Service
from gpuyard.policies.dispatch.layout import layout_of
from gpuyard.policies.dispatch.rules import deadline
from gpuyard.policies.partition.deployment import Deployment, known_models, serving_cluster
from gpuyard.policies.registry import PARTITIONS
from gpuyard.serving.applications import Applications
from gpuyard.serving.batches import Batch, Unit
from gpuyard.serving.contracts import emulated_contracts
from gpuyard.serving.dispatcher import Dispatcher
from gpuyard.serving.frames import Ended, StartBatch
from gpuyard.serving.gpu.emulated import EmulatedGpu
from gpuyard.serving.gpu.executor import SlicePlan
from gpuyard.serving.protocol.errors import ProtocolError, Status
from gpuyard.serving.protocol.inference import InferAnswer, InferRequest, Timing
from gpuyard.serving.protocol.stage_tensors import application_contract
from gpuyard.serving.slices import slice_plans
from gpuyard.serving.statistics import ServiceStatistics
from gpuyard.simulation.serving.engine import simulate_serving
from gpuyard.traces.arrivals import Arrivals, constant, poisson

Fate = tuple[str, float | None, float | None]
MIXED = (
    Service("vgg16", "vgg16", 120, 142), Service("bert", "bert", 200, 60), Service("resnet50", "resnet50", 150, 108),
    Service("lenet", "lenet", 400, 25), Service("faces", "googlenet", 150, 66),
)  # fmt: skip


class Asked(NamedTuple):
    number: int


class VirtualServer:
    """The parts of the server between sockets, driven by hand."""

    def __init__(self, deployment: Deployment) -> None:
        layout = layout_of(deployment)
        self.dispatcher = Dispatcher(layout.slo_s.tolist())
        self.gpu_of = layout.slice_gpu.tolist()
        self.dispatcher.change(layout, range(len(deployment.services)))
        self.running: dict[int, Batch] = {}
        self.gpus: dict[int, EmulatedGpu] = {}
        for gpu, plans in slice_plans(deployment, layout, {}).items():
            self.gpus[gpu] = EmulatedGpu()
            self.gpus[gpu].prepare(0, [SlicePlan.of(each) for each in plans], 0.0)
            self.gpus[gpu].prepared(0.0)
            self.dispatcher.gain(gpu, 0.0)
        self.fates: dict[int, Fate] = {}

    def run(self, arrivals: Arrivals) -> list[Fate]:
        for number, (time, service) in enumerate(zip(arrivals.times_s, arrivals.service, strict=True)):
            self.pass_to(float(time))
            if not self.dispatcher.admits(int(service), 1):
                self.fates[number] = ("refused", None, None)
                continue
            unit = Unit(Asked(number), 0, float(time))
            self.start(self.dispatcher.arrive(int(service), [unit], float(time)), float(time))
        self.pass_to(inf)
        return [self.fates[number] for number in range(len(arrivals))]

    def pass_to(self, end: float) -> None:
        """Let batches end one after another."""
        while (due := min([inf, *chain(*map(self.due, self.gpus.values()))])) <= end and due < inf:
            for gpu in self.gpus.values():
                for ended in gpu.finished(due):
                    assert isinstance(ended, Ended)
                    self.end(ended)

    @staticmethod
    def due(gpu: EmulatedGpu) -> Iterator[float]:
        when = gpu.due_s()
        if when is not None:
            yield when

    def end(self, ended: Ended) -> None:
        batch = self.running.pop(ended.number)
        for unit in batch.units:
            late = ended.ended_s > unit.deadline_s
            self.fates[unit.ticket.number] = ("late" if late else "served", ended.begun_s, ended.ended_s)
        self.start(self.dispatcher.ended(batch, ended.ended_s, ended.ended_s), ended.ended_s)

    def start(self, batches: list[Batch], now: float) -> None:
        for batch in batches:
            self.running[batch.number] = batch
            gpu = self.gpus[self.gpu_of[batch.slice]]
            gpu.run(StartBatch(0, batch.number, batch.turn, len(batch.units), batch.begins_s, []), now)
        for unit in self.dispatcher.take_late():
            self.fates[unit.ticket.number] = ("dropped", None, None)


class Staged(VirtualServer):
    """The same for applications, whose requests are numbered behind the services."""

    def __init__(self, deployment: Deployment) -> None:
        super().__init__(deployment)
        self.deployment, self.now = deployment, 0.0
        contracts = emulated_contracts(deployment.services, deployment)
        contracts |= {each.name: application_contract(each, contracts) for each in deployment.applications}
        numbers = {each.service_id: number for number, each in enumerate(deployment.services)}
        count = len(deployment.services) + len(deployment.applications)
        self.statistics = [ServiceStatistics() for _ in range(count)]
        self.applications = Applications(
            deployment.applications, numbers, contracts, self.dispatcher, self.statistics, emulated=True
        )

    def run(self, arrivals: Arrivals) -> list[Fate]:
        for number, (time, which) in enumerate(zip(arrivals.times_s, arrivals.service, strict=True)):
            self.pass_to(float(time))
            self.now = float(time)
            of = self.applications.find(str(arrivals.services[which]))
            assert of is not None
            done = partial(self.note, number, self.now, of.order.slo_s)
            self.start(self.applications.begin(of, InferRequest(of.contract.name, 1, ()), done, self.now), self.now)
        self.pass_to(inf)
        return [self.fates[number] for number in range(len(arrivals))]

    def note(self, number: int, arrived: float, slo_s: float, result: InferAnswer | ProtocolError) -> None:
        if isinstance(result, ProtocolError):
            self.fates[number] = ("refused" if self.now == arrived else "dropped", None, None)
        else:
            outcome = "served" if self.now <= deadline(arrived, slo_s) else "late"
            self.fates[number] = (outcome, None, self.now)

    def end(self, ended: Ended) -> None:
        batch = self.running.pop(ended.number)
        self.now = ended.ended_s
        self.start(self.dispatcher.ended(batch, self.now, self.now), self.now)
        for unit in batch.units:
            unit.ticket.done(InferAnswer((), Timing(0.0, ended.ended_s - ended.begun_s)))
        self.start(self.applications.hand_on(self.now, self.now), self.now)

    def start(self, batches: list[Batch], now: float) -> None:
        for batch in batches:
            self.running[batch.number] = batch
            gpu = self.gpus[self.gpu_of[batch.slice]]
            gpu.run(StartBatch(0, batch.number, batch.turn, len(batch.units), batch.begins_s, []), now)
        while late := self.dispatcher.take_late():
            for unit in late:
                unit.ticket.done(ProtocolError(Status.UNAVAILABLE, "too late"))


def planned(services: tuple[Service, ...], gpus: str) -> Deployment:
    cluster = serving_cluster(gpus)
    plan: Any = PARTITIONS.find("elastic").plan(services, cluster, known_models(cluster))
    assert not plan.unserved
    return Deployment(services, cluster, plan)


@pytest.mark.parametrize("scale", [1.0, 2.0])
@pytest.mark.parametrize("gpus", ["4x2080ti", "4x3080"])
def test_the_server_does_what_the_simulator_does(gpus: str, scale: float) -> None:
    deployment = planned(MIXED, gpus)
    rates = {each.service_id: each.rate_per_s * scale for each in MIXED}
    arrivals = poisson(rates, 3.0, 1)
    table = simulate_serving(deployment, arrivals)["requests"]
    expected = list(table.select("outcome", "start_s", "finish_s").iter_rows())
    found = VirtualServer(deployment).run(arrivals)
    assert len(found) > 2000 * scale
    assert [fate for fate, _, _ in found] == [fate for fate, _, _ in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours[1:] == pytest.approx(theirs[1:], abs=1e-9) if theirs[1] is not None else ours[1] is None


@pytest.mark.parametrize("scale", [0.9, 1.6, 3.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_server_does_with_applications_what_the_simulator_does(scale: float, seed: int) -> None:
    traffic = Application(
        "traffic", 80.0, 202.0,
        (Stage("find", "ssd-mobilenetv1"), Stage("cars", "googlenet", ("find",), 1.5),
         Stage("faces", "vgg16", ("find",)), Stage("join", "lenet", ("cars", "faces"))),
    )  # fmt: skip
    two = Application("two", 100.0, 108.0, (Stage("a", "resnet50"), Stage("b", "lenet", (), 3.0)))
    services = tuple(
        Service(each.service_id(stage.name), stage.model, each.rate_per_s * stage.per_request, slo_ms)
        for each, slo_ms in ((traffic, 80.0), (two, 100.0)) for stage in each.stages
    )  # fmt: skip
    deployment = replace(planned(services, "4x2080ti"), applications=(traffic, two))
    arrivals = poisson({each.service_id: each.rate_per_s * scale for each in deployment.asked}, 4.0, seed)
    table = simulate_serving(deployment, arrivals)["requests"]
    expected = list(table.select("outcome", "finish_s").iter_rows())
    server = Staged(deployment)
    found = server.run(arrivals)
    assert [fate for fate, _, _ in found] == [fate for fate, _ in expected]
    assert [end for _, _, end in found] == [None if end is None else pytest.approx(end) for _, end in expected]
    if scale > 2:
        assert {fate for fate, _ in expected} >= {"served", "dropped", "refused"}
    assert sum(each.pending for each in server.statistics[len(services) :]) == 0


def timing_of_one_request(*stages: Stage) -> Timing:
    """On a GPU of their own, with batches of two: 10 ms for one, 5 ms more for the other."""
    whole = Application("app", 10.0, 100.0, stages)
    services = [Service(f"app/{each.name}", "m", 10.0 * each.per_request, 100.0) for each in stages]
    slices = [part(100, *((f"app/{each.name}", 2) for each in stages))]
    server = Staged(deployed(services, slices, {"m": steady(10.0, 5.0)}, applications=(whole,)))
    of = server.applications.find("app")
    assert of is not None
    answers: list[InferAnswer | ProtocolError] = []
    server.start(server.applications.begin(of, InferRequest("app", 1, ()), answers.append, 0.0), 0.0)
    server.pass_to(inf)
    [answer] = answers
    assert isinstance(answer, InferAnswer)
    return answer.timing


def test_an_answer_tells_the_longest_batch_of_a_stage_that_is_asked_several_times() -> None:
    # Three of them in batches of two: 10 + 5 ms, and 10 ms for the last one alone, who waited for the others.
    found = timing_of_one_request(Stage("cars", "m", (), 3.0))
    assert (found.queue_s, found.compute_s) == pytest.approx((0.010, 0.015))


def test_an_answer_tells_the_batches_before_and_behind_a_stage_that_is_not_asked() -> None:
    # Only every other request asks the one in the middle, and the first does not.
    found = timing_of_one_request(Stage("find", "m"), Stage("cars", "m", ("find",), 0.5), Stage("join", "m", ("cars",)))
    assert (found.queue_s, found.compute_s) == pytest.approx((0.0, 0.020))


def test_a_checked_plan_answers_evenly_spaced_requests_in_time() -> None:
    deployment = planned(MIXED, "4x2080ti")
    assert not deployment.violations()
    arrivals = constant({each.service_id: each.rate_per_s for each in MIXED}, 2.0)
    assert {fate for fate, _, _ in VirtualServer(deployment).run(arrivals)} == {"served"}
