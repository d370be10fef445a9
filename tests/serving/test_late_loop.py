"""An event loop that comes round late, on a virtual clock: what is hopeless by then starves nobody else."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from tests.serving.test_same_rules import VirtualServer
from tests.simulation.serving.builders import deployed, part, steady

from gpuyard.core.service import Service
from gpuyard.serving.batches import Batch, Unit
from gpuyard.serving.frames import Ended, StartBatch

SLO_S = 0.1
BATCH, BATCH_S = 8, 0.017


class Sent(NamedTuple):
    when_s: float


class LateServer(VirtualServer):
    """Requests and news of batches wait until the event loop comes round; what it answers goes out then."""

    def __init__(self) -> None:
        services = [Service("x", "m", 400, SLO_S * 1000)]
        super().__init__(deployed(services, [part(100, ("x", BATCH))], {"m": steady(10.0, 1.0)}))
        self.latencies_s: list[float] = []

    def come_round(self, now: float, sent: list[float]) -> None:
        for ended in [each for gpu in self.gpus.values() for each in gpu.finished(now)]:
            assert isinstance(ended, Ended)
            batch = self.running.pop(ended.number)
            self.latencies_s += [now - unit.ticket.when_s for unit in batch.units]
            self.begin(self.dispatcher.ended(batch, ended.ended_s, now), now)
        for when_s in sent:
            if self.dispatcher.admits(0, 1):
                self.begin(self.dispatcher.arrive(0, [Unit(Sent(when_s), 0, now)], now), now)
        self.begin(self.dispatcher.expire(now), now)
        self.dispatcher.take_late()

    def begin(self, batches: list[Batch], now: float) -> None:
        for batch in batches:
            self.running[batch.number] = batch
            self.gpus[0].run(StartBatch(0, batch.number, batch.turn, len(batch.units), batch.begins_s, []), now)

    @property
    def in_time(self) -> int:
        return sum(latency_s <= SLO_S for latency_s in self.latencies_s)


def overloaded(every_s: float, rate: float, seconds: float = 10.0) -> LateServer:
    """A server whose loop comes round so often, asked so many times a second."""
    server, asked = LateServer(), 0
    for number in range(1, round(seconds / every_s) + 1):
        now = number * every_s
        due = int(now * rate)
        server.come_round(now, [each / rate for each in range(asked, due)])
        asked = due
    return server


@pytest.mark.parametrize("times", [2, 8, 16])
@pytest.mark.parametrize("every_s", [0.005, 0.01, 0.02])
def test_a_late_loop_still_answers_in_time_what_its_slices_can_do(every_s: float, times: int) -> None:
    """A slice begins one batch each time that the loop comes round, if the one before has ended."""
    server = overloaded(every_s, 400.0 * times)
    most = 10.0 / max(BATCH_S, every_s) * BATCH
    assert server.in_time > 0.75 * most
    assert server.in_time > 0.9 * len(server.latencies_s)


@pytest.mark.parametrize("every_s", [0.03, 0.045])
def test_a_very_late_loop_still_answers_some(every_s: float) -> None:
    server = overloaded(every_s, 3200.0)
    assert server.in_time > 0.9 * 10.0 / every_s / 2
    assert server.in_time > 0.9 * len(server.latencies_s)


def test_one_late_look_drops_nobody_who_can_be_answered() -> None:
    server = LateServer()
    for number in range(1, 20):
        server.come_round(number * 0.001, [number * 0.001 - 0.0005])
    server.come_round(0.065, [0.06] * 12)
    for number in range(66, 200):
        server.come_round(number * 0.001, [])
    assert (server.in_time, len(server.latencies_s)) == (31, 31)


@pytest.mark.parametrize("pause_s", [0.5, 5.0])
def test_it_recovers_when_the_loop_does(pause_s: float) -> None:
    server = overloaded(0.2, 3200.0, seconds=4.0)
    before = len(server.latencies_s)
    for number in range(1, 500):
        now = 4.0 + pause_s + number * 0.001
        server.come_round(now, [now] if number % 4 == 0 else [])
    assert sum(latency_s <= SLO_S for latency_s in server.latencies_s[before:]) > 110
