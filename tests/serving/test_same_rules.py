"""Dispatcher and emulated GPUs, on a clock that jumps, do what the simulator does: request by request, to the digit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from math import inf
from typing import Any, NamedTuple

import pytest

from gpuyard.core.service import Service
from gpuyard.policies.dispatch.layout import layout_of
from gpuyard.policies.partition.deployment import Deployment, known_models, serving_cluster
from gpuyard.policies.registry import PARTITIONS
from gpuyard.serving.dispatcher import Batch, Dispatcher, Unit
from gpuyard.serving.frames import Ended, StartBatch
from gpuyard.serving.gpu.emulated import EmulatedGpu
from gpuyard.serving.gpu.executor import SlicePlan
from gpuyard.serving.slices import slice_plans
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


def test_a_checked_plan_answers_evenly_spaced_requests_in_time() -> None:
    deployment = planned(MIXED, "4x2080ti")
    assert not deployment.violations()
    arrivals = constant({each.service_id: each.rate_per_s for each in MIXED}, 2.0)
    assert {fate for fate, _, _ in VirtualServer(deployment).run(arrivals)} == {"served"}
