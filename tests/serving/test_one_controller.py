"""The controller and the function that decide for a simulated server decide for a real one, too."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children
from types import SimpleNamespace
from typing import Any

import pytest
from tests.serving.running import BERT, PATIENCE_S, crowd
from tests.serving.test_same_rules import planned

from gpuyard.core.service import Service
from gpuyard.policies.controller import control
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.elastic import Elastic
from gpuyard.policies.partition.replanning import Counts, Replanner
from gpuyard.policies.partition.tracking import Tracking
from gpuyard.serving.contracts import emulated_contracts
from gpuyard.serving.fleet import Workers
from gpuyard.serving.following import LiveServer
from gpuyard.serving.front import Front
from gpuyard.serving.planner import ServingPlanner
from gpuyard.serving.server import Ports, Server
from gpuyard.serving.settings import ServeSettings
from gpuyard.simulation.serving.engine import ServingOptions, simulate_serving
from gpuyard.simulation.serving.following import Replanning
from gpuyard.traces.arrivals import fluctuating

SERVICES = (Service("vgg16", "vgg16", 10, 400), Service("bert", "bert", 20, 20_000))
Decided = list[tuple[Counts, Deployment | None]]


def recording(decide: Callable[[Any, Counts], Deployment | None], kept: Decided) -> Callable[..., Deployment | None]:
    def recorded(self: Any, counts: Counts) -> Deployment | None:
        found = decide(self, counts)
        kept.append((counts, found))
        return found

    return recorded


def slices(decided: Decided) -> list[object]:
    return [None if found is None else (found.plan.slices, found.services) for _, found in decided]


def again(decide: Callable[[Counts], Deployment | None], decided: Decided) -> Decided:
    return [(counts, decide(counts)) for counts, _ in decided]


@contextmanager
def planner(deployment: Deployment) -> Iterator[ServingPlanner]:
    found = ServingPlanner(deployment, Elastic(), Tracking(), deployment.services)
    try:
        yield found
    finally:
        found.close()


def test_a_server_decides_as_a_replanner_does_about_what_it_has_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    decided: Decided = []
    monkeypatch.setattr(ServingPlanner, "decide", recording(ServingPlanner.decide, decided))
    origin, tracking = planned(SERVICES, "4x2080ti"), Tracking.each(0.5)
    settings = ServeSettings(http_port=0, grpc_port=0, tracking=tracking, prepare_s=0.01)

    async def serve_a_crowd() -> None:
        ready: asyncio.Future[Ports] = asyncio.get_running_loop().create_future()
        server = Server(origin, Elastic(), settings, None)
        running = asyncio.create_task(server.run(ready.set_result))
        ports = await ready
        while server.front.switches < 2:
            await asyncio.to_thread(crowd, ports.http, 480, name="bert", body=BERT)
        server.stop()
        await running

    asyncio.run(asyncio.wait_for(serve_a_crowd(), PATIENCE_S))
    replanner = Replanner(origin, Elastic(), tracking, also=SERVICES)
    if decided[-1][1] is None:
        decided.pop()  # it may be that of a process that was ended
    assert slices(decided) == slices(again(replanner.decide, decided))
    assert any(found is not None for _, found in decided)


def test_the_process_of_a_server_decides_as_the_simulated_server_did(monkeypatch: pytest.MonkeyPatch) -> None:
    decided: Decided = []
    with monkeypatch.context() as patched:
        patched.setattr(Replanner, "decide", recording(Replanner.decide, decided))
        origin = planned(SERVICES, "4x2080ti")
        rates: dict[int | str, list[float]] = {"vgg16": [10.0, 200.0, 10.0, 10.0], "bert": [20.0, 20.0, 400.0, 20.0]}
        simulate_serving(origin, fluctuating(rates, 80, 1), ServingOptions(replanning=Replanning(Elastic())))
    assert [len(counts) for counts, _ in decided] == [40] * 3
    assert sum(found is not None for _, found in decided) >= 2
    with planner(origin) as ours:
        assert slices(again(ours.decide, decided)) == slices(decided)


def test_every_request_is_in_one_snapshot_also_those_that_come_while_a_decision_is_made() -> None:
    origin = planned(SERVICES, "4x2080ti")
    counted = []

    async def follow() -> int:
        front = Front(SERVICES, emulated_contracts(SERVICES, origin), Workers())
        tracking = Tracking(period_s=0.02, count_every_s=0.01)
        world = LiveServer(front, tracking)
        counting, loop = asyncio.create_task(world.count()), asyncio.get_running_loop()

        def wait_for_a_count() -> None:
            """Of two that sleep in one loop, the one that sleeps for less wakes first, however busy the machine is."""
            asyncio.run_coroutine_threadsafe(asyncio.sleep(2 * tracking.count_every_s), loop).result()

        def decide(counts: Counts) -> None:
            assert len(counts) >= 2
            counted.append(sum(each["bert"] for each in counts))
            if len(counted) <= 5:
                front.statistics["bert"].arrive(len(counted))
                if len(counted) % 2:
                    wait_for_a_count()
            elif sum(counted) == 1 + 2 + 3 + 4 + 5 or len(counted) == 50:
                world.end()

        decisions = await asyncio.to_thread(control, world, decide)
        counting.cancel()
        return decisions

    assert asyncio.run(asyncio.wait_for(follow(), PATIENCE_S)) == len(counted)
    assert sum(counted) == 1 + 2 + 3 + 4 + 5


def test_counts_are_of_their_interval_on_average_however_late_the_loop_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever slept for an interval each time would count for longer, and find rates that are too high."""
    now, slept = [0.0], []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds + 0.125
        if len(slept) == 4:
            raise asyncio.CancelledError

    async def count() -> None:
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: SimpleNamespace(time=lambda: now[0]))
        front = Front(SERVICES, emulated_contracts(SERVICES, planned(SERVICES, "4x2080ti")), Workers())
        monkeypatch.setattr(asyncio, "sleep", sleep)
        await LiveServer(front, Tracking(count_every_s=0.5)).count()

    with pytest.raises(asyncio.CancelledError), monkeypatch.context():
        asyncio.run(count())
    assert slept == [0.5, 0.375, 0.375, 0.375]


def test_a_planner_gives_way_to_those_that_serve() -> None:
    before = set(active_children())
    with planner(planned(SERVICES, "4x2080ti")) as ours:
        [process] = set(active_children()) - before
        assert ours.decide(()) is None
        assert process.pid is not None
        here, there = (os.getpriority(os.PRIO_PROCESS, pid) for pid in (0, process.pid))
    assert there == min(here + 10, 19)


def test_a_planner_that_is_closed_while_it_thinks_decides_nothing_and_is_not_replaced(
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = set(active_children())
    with planner(planned(SERVICES, "4x2080ti")) as ours, ThreadPoolExecutor(1) as pool:
        [process] = set(active_children()) - before
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
        asked = pool.submit(ours.decide, ({"bert": 1000},))
        ours.close()
        assert asked.result(PATIENCE_S) is None
        assert set(active_children()) == before
    assert capfd.readouterr().err == ""


def test_a_planner_that_takes_over_begins_with_the_plan_that_was_last_decided_on() -> None:
    before = set(active_children())
    with planner(planned(SERVICES, "4x2080ti")) as ours:
        busy: dict[int | str, int] = {"vgg16": 5, "bert": 200}
        grown = ours.decide((busy,) * 40)
        assert grown is not None
        [process] = set(active_children()) - before
        process.kill()
        process.join()
        assert ours.decide(()) is None
        # What it was last planned for calls for nothing else; seen from the first plan it would have grown.
        assert ours.decide(({each.service_id: round(each.rate_per_s / 2) for each in grown.services},) * 40) is None
