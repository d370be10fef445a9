"""The service that processes of jobs ask on their node, over gRPC, whoever serves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from gpuyard.client.control import NODE, NODE_CALLS, NODE_TAKES, messages
from gpuyard.runtime.admission import Admission
from gpuyard.runtime.wire import reader_of

THREADS = 16

Answer = Callable[[str, Any, Mapping[str, str]], Any]
"""From a call, its message and what it says of its caller to the answer."""


class CallRefusedError(Exception):
    """A call is not answered."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


def serve_node(socket: str, answer: Answer) -> grpc.Server:
    """Answer at a unix socket, in threads, until the server is stopped."""
    server = grpc.server(ThreadPoolExecutor(THREADS), interceptors=[Admission()])
    calls = {call: _handler(call, answer) for call in NODE_CALLS}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(NODE, calls),))
    Path(socket).unlink(missing_ok=True)
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    return server


def is_behind(told: Any, last: Any) -> bool:
    """Whether this is older progress than the last: threads may hear it in another order than it was told."""
    return (told.step, told.saves) < (last.step, last.saves)


def _handler(call: str, answer: Answer) -> Any:
    def handle(request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return answer(call, request, {name: str(value) for name, value in context.invocation_metadata()})
        except CallRefusedError as error:
            context.abort(error.code, str(error))

    return grpc.unary_unary_rpc_method_handler(
        handle, reader_of(messages()[NODE_TAKES[call]]), lambda message: message.SerializeToString()
    )
