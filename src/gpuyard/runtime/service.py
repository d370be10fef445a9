"""The scheduler's side of the control protocol: agents attach, users ask."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import grpc

from gpuyard.client.control import ATTACH, SCHEDULER, SCHEDULER_CALLS, messages
from gpuyard.core.errors import GpuyardError
from gpuyard.runtime.access import TOKEN, access_folder, make_access, read_secret, server_folder
from gpuyard.runtime.addresses import CONNECTION, SchedulerAddress
from gpuyard.runtime.admission import Admission, server_credentials
from gpuyard.runtime.commands import AgentCommand
from gpuyard.runtime.queue_view import queue_message
from gpuyard.runtime.real_cluster import RealCluster
from gpuyard.runtime.reports import RankExit, RankProgress
from gpuyard.runtime.submitting import submitted_jobs
from gpuyard.runtime.wire import command_message, exit_of, progress_of, reader_of

ANSWER_S = 60.0
HEARTBEAT_S = 5.0
"""Far below the shortest lease."""
HELLO_S = 10.0
"""Who attaches and says nothing keeps a thread for so long."""
CALLERS = 8
"""Threads for users, beside one for each agent."""


OFTEN_ASKED = [
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
]
"""A port of its own, and patience with callers who ask whether it is there."""


class AttachedAgents:
    """Sends commands to agents that are attached; what others miss they hear of when they are back.

    Of each node only the newest agent counts. One before it may live on, as on a node that was taken for lost; it would
    deny what its successor has, and is told to end.
    """

    def __init__(self, newest: Mapping[str, int] | None = None) -> None:
        self.newest = dict(newest or {})
        """By node, the number of its agent."""
        self._links: dict[str, queue.SimpleQueue[Any]] = {}
        self._lock = threading.Lock()
        self._looks: Counter[str] = Counter()

    def next_number(self, node: str) -> int:
        """Of the agent that is about to be started on a node; the one before counts no more."""
        with self._lock:
            self.newest[node] = self.newest.get(node, 0) + 1
            before = self._links.pop(node, None)
            if before is not None:
                before.put(_ending())
                before.put(None)
            return self.newest[node]

    def heard(self, node: str) -> None:
        """A node's agent has said something."""
        self._looks[node] = 0

    def looks_since_heard(self, node: str) -> int:
        """How often this was asked since an agent that is attached last said something.

        Nobody is blamed for time in which nobody asked: the scheduler itself may have been stopped.
        """
        self._looks[node] = self._looks[node] + 1 if node in self._links else 0
        return self._looks[node]

    def tell(self, node: str, command: AgentCommand) -> None:
        """Hand a command to a node's agent."""
        link = self._links.get(node)
        if link is not None:
            link.put(command_message(command))

    def attach(self, node: str, number: int) -> queue.SimpleQueue[Any] | None:
        """A fresh link to a node, instead of any before; none to an agent that counts no more."""
        with self._lock:
            if number != self.newest.get(node):
                return None
            before = self._links.get(node)
            if before is not None:
                before.put(None)
            self.heard(node)
            self._links[node] = queue.SimpleQueue()
            return self._links[node]

    def hears(self, node: str, link: queue.SimpleQueue[Any]) -> bool:
        """Whether what is said over this link still counts."""
        return self._links.get(node) is link

    def detach(self, node: str, link: queue.SimpleQueue[Any]) -> None:
        """A link has broken."""
        link.put(None)
        with self._lock:
            if self._links.get(node) is link:
                del self._links[node]

    def shut_down(self) -> None:
        """Tell all agents that it is over."""
        for link in self._links.values():
            link.put(_ending())


def _ending() -> Any:
    """By which an agent ends, and all processes of its node."""
    return messages()["ToAgent"](shutdown=messages()["Shutdown"]())


def next_word(link: queue.SimpleQueue[Any], patience_s: float) -> Any:
    """What an agent is told next: nothing at all, now and then, so that it knows that somebody is here."""
    try:
        return link.get(timeout=patience_s)
    except queue.Empty:
        return messages()["ToAgent"]()


class SchedulerService:
    """Answers agents and users, from the world that it stands before."""

    def __init__(self, world: RealCluster, agents: AttachedAgents, about: dict[str, str]) -> None:
        self._world, self._agents, self._about = world, agents, about
        self._messages = messages()

    def handlers(self) -> grpc.GenericRpcHandler:
        """What a gRPC server needs."""
        kinds = self._messages

        def unary(call: str) -> Any:
            return grpc.unary_unary_rpc_method_handler(
                lambda request, context: self._answer(call, request, context),
                reader_of(kinds[f"{call}Request"]), lambda message: message.SerializeToString(),
            )  # fmt: skip

        found = {call: unary(call) for call in SCHEDULER_CALLS}
        found[ATTACH] = grpc.stream_stream_rpc_method_handler(
            self._attach, reader_of(kinds["FromAgent"]), lambda message: message.SerializeToString()
        )
        return grpc.method_handlers_generic_handler(SCHEDULER, found)

    def _answer(self, call: str, request: Any, context: grpc.ServicerContext) -> Any:
        answers: dict[str, Callable[[Any, float], Any]] = {
            "Submit": self._submit, "Cancel": self._cancel, "Queue": self._queue, "End": self._end,
        }  # fmt: skip
        try:
            return self._world.ask(lambda now: answers[call](request, now)).result(ANSWER_S)
        except GpuyardError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    def _submit(self, request: Any, now: float) -> Any:
        return self._messages["SubmitResponse"](ids=self._world.add(submitted_jobs(request.jobs, now)))

    def _cancel(self, request: Any, _now: float) -> Any:
        return self._messages["CancelResponse"](state=self._world.cancel(request.job))

    def _queue(self, _request: Any, now: float) -> Any:
        return queue_message(self._world.records.values(), now, self._about)

    def _end(self, _request: Any, _now: float) -> Any:
        self._world.end()
        return self._messages["EndResponse"]()

    def _attach(self, told: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        late = threading.Timer(HELLO_S, context.cancel)
        late.start()
        first = next(told, None)
        late.cancel()
        hello = first.hello if first is not None else None
        if hello is None or not hello.node:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "an agent says first who it is")
            return  # not reached: it raises
        if hello.node not in self._world.cluster.node_names:
            context.abort(grpc.StatusCode.NOT_FOUND, f"{hello.node!r} is not a node of this run")
        link = self._agents.attach(hello.node, hello.number)
        if link is None:
            yield _ending()
            return
        running, exits = [progress_of(each) for each in hello.ranks], [exit_of(each) for each in hello.exits]
        self._world.post(partial(self._joined, hello, running, exits))
        context.add_callback(lambda: self._agents.detach(hello.node, link))
        reader = ThreadPoolExecutor(1, f"from-{hello.node}")
        reader.submit(self._hear, hello.node, told, link)
        while (message := next_word(link, HEARTBEAT_S)) is not None:
            yield message
        reader.shutdown(wait=False)

    def _joined(self, hello: Any, running: list[RankProgress], exits: list[RankExit], now: float) -> None:
        self._world.attempts.launching.hosts[hello.node] = hello.host
        self._world.attempts.joined(hello.node, running, exits, now)

    def _hear(self, node: str, told: Iterator[Any], link: queue.SimpleQueue[Any]) -> None:
        attempts = self._world.attempts
        try:
            for message in told:
                if not self._agents.hears(node, link):
                    break
                self._agents.heard(node)
                what = message.WhichOneof("parameter_choice")
                if what == "progress":
                    for each in message.progress.all:
                        self._world.post(partial(attempts.progressed, progress_of(each)))
                elif what == "exited":
                    self._world.post(partial(attempts.told_exit, node, exit_of(message.exited)))
        except grpc.RpcError:
            pass
        finally:
            link.put(None)


def serve(service: SchedulerService, listen: str, agents: int, state: Path) -> tuple[grpc.Server, SchedulerAddress]:
    """Listen at `unix:PATH`, or at `HOST:0` with TLS and a token; returns the server, and where it is reached."""
    over_network = not listen.startswith("unix:")
    if over_network:
        make_access(state)
    folder = access_folder(state)
    token = read_secret(folder / TOKEN) if over_network else None
    server = grpc.server(
        ThreadPoolExecutor(agents + CALLERS), interceptors=[Admission(token)],
        options=[*OFTEN_ASKED, *CONNECTION],
    )  # fmt: skip
    server.add_generic_rpc_handlers((service.handlers(),))
    if over_network:
        port = server.add_secure_port(listen, server_credentials(server_folder(state)))
        address = SchedulerAddress(f"{listen.rsplit(':', 1)[0]}:{port}", str(folder.resolve()))
    else:
        server.add_insecure_port(listen)
        address = SchedulerAddress(listen)
    server.start()
    return server, address
