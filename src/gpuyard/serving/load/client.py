"""One client process: gets its requests through a pipe, sends them, and gives back what became of them."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from array import array
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NamedTuple

from gpuyard.core.interrupts import ENDING
from gpuyard.serving.load.grpc_sender import GrpcSender
from gpuyard.serving.load.http_sender import HttpSender
from gpuyard.serving.load.log import RequestLog
from gpuyard.serving.load.pacing import Sender, drive
from gpuyard.serving.load.target import Target


@dataclass(frozen=True)
class ClientTask:
    """What one client has to send."""

    target: Target
    messages: tuple[bytes, ...]
    due_s: array[float]
    kinds: array[int]
    """For each request, its message."""
    connections: int
    ready: int
    """Connections to open ahead."""
    timeout_s: float


class ClientProgress(NamedTuple):
    """How far a client is."""

    come: int
    ended: int


READY = "ready"


def sender_of(task: ClientTask, log: RequestLog) -> Sender:
    """Who speaks the target's protocol."""
    if task.target.grpc:
        return GrpcSender(
            task.target, task.messages, task.kinds, log, channels=task.connections, timeout_s=task.timeout_s
        )  # fmt: skip
    return HttpSender(task.target, task.messages, task.kinds, log, most=task.connections, ready=task.ready)


async def _work(task: ClientTask, pipe: Connection) -> RequestLog:
    """Get ready, begin at the instant that the pipe tells, and stop when it says anything more or ends."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    begin: asyncio.Future[float] = loop.create_future()

    def hear() -> None:
        try:
            told = pipe.recv()
        except (EOFError, OSError):
            told = None
        if told is None or begin.done():
            stop.set()
            loop.remove_reader(pipe.fileno())
        if not begin.done():
            begin.set_result(told if told is not None else loop.time())

    loop.add_reader(pipe.fileno(), hear)
    log = RequestLog(task.due_s)
    sender = sender_of(task, log)
    await sender.open()
    pipe.send(READY)
    log.start = await begin
    await drive(
        log, sender, timeout_s=task.timeout_s, stop=stop, look=lambda: pipe.send(ClientProgress(log.come, log.ended))
    )  # fmt: skip
    return log


def main() -> None:
    """Serve the parent at the other end of the pipe; without it there is nothing to do."""
    for number in (signal.SIGINT, *ENDING):
        signal.signal(number, signal.SIG_IGN)  # the parent hears them, and tells when to stop
    pipe = Connection(int(sys.argv[1]))
    with suppress(EOFError, ConnectionError):  # the parent is gone
        task = pipe.recv()
        gc.collect()
        gc.freeze()  # what is loaded by now need not be looked through while requests are due
        pipe.send(asyncio.run(_work(task, pipe)).notes)
