"""GPU processes: started again when they die, but ever more seldom, and ended when nobody needs them."""

from __future__ import annotations

import asyncio
import sys

import pytest

from gpuyard.serving.fleet import Fleet, Workers
from gpuyard.serving.frames import FrameKind, number_frame

READY = number_frame(FrameKind.PREPARED, 0)
LIVING = """
import socket, sys
front = socket.socket(fileno=int(sys.argv[1]))
front.sendall(bytes.fromhex(sys.argv[2]))
while front.recv(1024):
    pass
"""


class Dying(Workers):
    """Processes that end at once."""

    def command(self, fileno: int, gpu: int) -> list[str]:
        return ["true"]


def test_a_process_that_never_gets_ready_is_started_again_after_longer_and_longer_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    lost: list[int] = []

    async def live() -> None:
        enough, at_once = asyncio.Event(), asyncio.sleep

        async def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 9:
                enough.set()
            await at_once(0)

        monkeypatch.setattr(asyncio, "sleep", pause)
        fleet = Fleet(Dying(), lambda *_: None, lost.append)
        fleet.prepare(0, {3: []})
        await enough.wait()
        await fleet.close()

    asyncio.run(live())
    assert pauses[:9] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert lost[:9] == [3] * 9


class Living(Workers):
    """Processes that are ready at once, and end with the front end's socket."""

    def command(self, fileno: int, gpu: int) -> list[str]:
        return [sys.executable, "-c", LIVING, str(fileno), READY.hex()]


def test_a_process_is_ended_when_nothing_runs_there_any_more_and_not_before() -> None:
    lost: list[int] = []

    async def live() -> None:
        ready, ended = asyncio.Event(), asyncio.Event()

        def on_lost(gpu: int) -> None:
            lost.append(gpu)
            ended.set()

        fleet = Fleet(Living(), lambda *_: ready.set(), on_lost)
        fleet.prepare(0, {3: []})
        await ready.wait()
        fleet.retire(0)
        fleet.end_unneeded({3})
        for _ in range(20):  # rounds of the event loop
            await asyncio.sleep(0)
        assert lost == []
        fleet.end_unneeded(set())
        await ended.wait()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)

    asyncio.run(live())
    assert lost == [3]
