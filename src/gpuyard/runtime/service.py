"""The scheduler's side of the control protocol: agents attach, users ask."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hmac import compare_digest
from pathlib import Path
from typing import Any

import grpc

from gpuyard.client.control import ATTACH, SCHEDULER, SCHEDULER_CALLS, VERSION, messages
from gpuyard.core.errors import GpuyardError
from gpuyard.runtime.addresses import SchedulerAddress
from gpuyard.runtime.commands import AgentCommand
from gpuyard.runtime.queue_view import queue_message
from gpuyard.runtime.real_cluster import RealCluster
from gpuyard.runtime.submitting import submitted_jobs
from gpuyard.runtime.wire import command_message, exit_of, progress_of

ANSWER_S = 60.0
CALLERS = 8
"""Threads for users, beside one for each agent."""


class AttachedAgents:
    """Sends commands to agents that are attached; what others miss they hear of when they are back."""

    def __init__(self) -> None:
        self._links: dict[str, queue.SimpleQueue[Any]] = {}

    def tell(self, node: str, command: AgentCommand) -> None:
        """Hand a command to a node's agent."""
        link = self._links.get(node)
        if link is not None:
            link.put(command_message(command))

    def attach(self, node: str) -> queue.SimpleQueue[Any]:
        """A fresh link to a node, instead of any before."""
        before = self._links.get(node)
        if before is not None:
            before.put(None)
        self._links[node] = queue.SimpleQueue()
        return self._links[node]

    def detach(self, node: str, link: queue.SimpleQueue[Any]) -> None:
        """A link has broken."""
        link.put(None)
        if self._links.get(node) is link:
            del self._links[node]

    def shut_down(self) -> None:
        """Tell all agents that it is over."""
        for link in self._links.values():
            link.put(messages()["ToAgent"](shutdown=messages()["Shutdown"]()))


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
                kinds[f"{call}Request"].FromString, lambda message: message.SerializeToString(),
            )  # fmt: skip

        found = {call: unary(call) for call in SCHEDULER_CALLS}
        found[ATTACH] = grpc.stream_stream_rpc_method_handler(
            self._attach, kinds["FromAgent"].FromString, lambda message: message.SerializeToString()
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
        jobs = submitted_jobs(json.loads(request.jobs) | {"now_s": now})
        return self._messages["SubmitResponse"](ids=self._world.add(jobs))

    def _cancel(self, request: Any, _now: float) -> Any:
        return self._messages["CancelResponse"](state=self._world.cancel(request.job))

    def _queue(self, _request: Any, now: float) -> Any:
        return queue_message(self._world.records.values(), now, self._about)

    def _end(self, _request: Any, _now: float) -> Any:
        self._world.end()
        return self._messages["EndResponse"]()

    def _attach(self, told: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        hello = next(told).hello
        if hello.version != VERSION:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"this scheduler speaks version {VERSION}")
        if hello.node not in self._world.cluster.node_names:
            context.abort(grpc.StatusCode.NOT_FOUND, f"{hello.node!r} is not a node of this run")
        link = self._agents.attach(hello.node)
        running, exits = [progress_of(each) for each in hello.ranks], [exit_of(each) for each in hello.exits]
        self._world.post(lambda now: self._world.attempts.joined(hello.node, running, exits, now))
        for each in hello.exits:
            link.put(self._acknowledge(each.number))
        context.add_callback(lambda: self._agents.detach(hello.node, link))
        reader = ThreadPoolExecutor(1, f"from-{hello.node}")
        reader.submit(self._hear, told, link)
        while (message := link.get()) is not None:
            yield message
        reader.shutdown(wait=False)

    def _hear(self, told: Iterator[Any], link: queue.SimpleQueue[Any]) -> None:
        attempts = self._world.attempts
        try:
            for message in told:
                what = message.WhichOneof("parameter_choice")
                if what == "progress":
                    for each in message.progress.all:
                        self._world.post(partial(attempts.progressed, progress_of(each)))
                elif what == "exited":
                    self._world.post(partial(attempts.exited, exit_of(message.exited)))
                    link.put(self._acknowledge(message.exited.number))
        except grpc.RpcError:
            pass
        finally:
            link.put(None)

    def _acknowledge(self, number: int) -> Any:
        return self._messages["ToAgent"](acknowledge=self._messages["Acknowledge"](number=number))


class _TokenCheck(grpc.ServerInterceptor):  # type: ignore[misc]
    """Lets nobody in without the token."""

    def __init__(self, token: str) -> None:
        self._wanted = f"Bearer {token}"

        def refuse(_request: Any, context: grpc.ServicerContext) -> Any:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "a token is needed")

        self._refusal = grpc.unary_unary_rpc_method_handler(refuse)

    def intercept_service(self, continuation: Any, details: Any) -> Any:
        """Look at the metadata of a call before anything else."""
        given = next((value for name, value in details.invocation_metadata if name == "authorization"), "")
        return continuation(details) if compare_digest(str(given), self._wanted) else self._refusal


def serve(service: SchedulerService, address: SchedulerAddress, nodes: int) -> tuple[grpc.Server, int]:
    """Listen at this address; returns the server and its port, if it has one."""
    token = Path(address.token_file).read_text().strip() if address.token_file else ""
    server = grpc.server(
        ThreadPoolExecutor(nodes + CALLERS), interceptors=[_TokenCheck(token)] if token else [],
        options=[("grpc.so_reuseport", 0)],
    )  # fmt: skip
    server.add_generic_rpc_handlers((service.handlers(),))
    if address.ca_file:
        read = [Path(each).read_bytes() for each in (address.key_file, address.certificate_file, address.ca_file)]
        credentials = grpc.ssl_server_credentials([(read[0], read[1])], read[2], require_client_auth=True)
        port = server.add_secure_port(address.target, credentials)
    else:
        port = server.add_insecure_port(address.target)
    server.start()
    return server, port
