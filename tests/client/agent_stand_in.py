"""An agent that does what a test says: it answers over the real protocol, and its lease is the test's to change."""

import itertools
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from gpuyard.client.control import NO_LIMIT, NODE, NODE_CALLS, NODE_TAKES, messages
from gpuyard.client.process_group import WORLD_SIZE
from gpuyard.client.session import ATTEMPT, CHECKPOINTS, JOB, RANK, SAVE_EVERY, SOCKET, SPEED

ATTEMPTS = itertools.count(1)


class AgentStandIn:
    """Lets the process go up to step `until`; there it must leave, if `stop` says so."""

    def __init__(
        self, socket: Path, *, total: int = -1, until: int = NO_LIMIT, stop: bool = False, beat_s: float = 0.05,
        save_at: int = 0,
    ) -> None:  # fmt: skip
        self.total, self.beat_s = total, beat_s
        self.breaks: set[str] = set()
        """Calls whose connection breaks the next time."""
        self.lease = messages()["Lease"](stop=stop, limit=until, save_at=save_at)
        self.last: Any = None
        self.left: Any = None
        self.joins = 0
        self.heard = threading.Event()
        self._server = grpc.server(ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(NODE, {call: self._handler(call) for call in NODE_CALLS}),)
        )
        self._server.add_insecure_port(f"unix:{socket}")
        self._server.start()

    def _handler(self, call: str) -> Any:
        kind = messages()[NODE_TAKES[call]]
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._answer(call, request, context), kind.FromString,
            lambda message: message.SerializeToString(),
        )  # fmt: skip

    def _answer(self, call: str, request: Any, context: grpc.ServicerContext) -> Any:
        kinds = messages()
        if call in self.breaks:
            self.breaks.discard(call)
            context.abort(grpc.StatusCode.UNAVAILABLE, "Stream removed (sendmsg: Broken pipe)")
        if call == "Join":
            self.joins += 1
            return kinds["JoinResponse"](total_steps=self.total, beat_s=self.beat_s, lease=self.lease)
        if call == "Report":
            self.last = request
            self.heard.set()
            return kinds["ReportResponse"](lease=self.lease)
        self.left = request
        return kinds["LeaveResponse"]()

    def close(self) -> None:
        self._server.stop(0)


@contextmanager
def under_an_agent(
    folder: Path, *, every_s: float = 1e9, speed: float = 1.0, rank: int = 0, ranks: int = 1, **lease: Any
) -> Iterator[AgentStandIn]:
    """This process is one rank of a job, until the block ends."""
    attempt = next(ATTEMPTS)
    socket = folder / f"agent{attempt}"  # of its own: a server takes its socket away when it ends, which may be later
    told = {
        SOCKET: str(socket),
        JOB: "job",
        ATTEMPT: str(attempt),
        RANK: str(rank),
        WORLD_SIZE: str(ranks),
        SPEED: repr(speed),
        SAVE_EVERY: repr(every_s),
    }
    told[CHECKPOINTS] = str(folder / "checkpoints")
    agent = AgentStandIn(socket, **lease)
    os.environ.update(told)
    try:
        yield agent
    finally:
        for name in told:
            del os.environ[name]
        agent.close()
