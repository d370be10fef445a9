"""The protocol over gRPC."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from gpuyard.core.errors import InputError
from gpuyard.serving.calls import Calls
from gpuyard.serving.interface import Interface
from gpuyard.serving.protocol.errors import ProtocolError, Status
from gpuyard.serving.protocol.grpc_bodies import read_infer, write_config, write_infer
from gpuyard.serving.protocol.inference import InferAnswer
from gpuyard.serving.protocol.messages import METHODS, SERVICE, STREAM, messages
from gpuyard.serving.tokens import shows_token

Call = Callable[[Any, Any], Awaitable[None]]


class GrpcService:
    """From messages to answers; each method of the protocol has one of its name here, in small letters."""

    def __init__(self, interface: Interface, calls: Calls) -> None:
        self._interface, self._calls = interface, calls
        self._messages = messages()

    def handlers(self) -> grpc.GenericRpcHandler:
        """What a gRPC server needs to call the methods: as streams of bytes, so that reading waits for a place."""
        found = {name: grpc.stream_stream_rpc_method_handler(self._handler(name)) for name in METHODS}
        found[STREAM] = grpc.stream_stream_rpc_method_handler(aborting(self._stream))
        return grpc.method_handlers_generic_handler(SERVICE, found)

    def _handler(self, name: str) -> Call:
        answer: Callable[[Any], Awaitable[Any]] = getattr(self, "_" + _small(name))
        kind = self._messages[f"{name}Request"]

        async def call(_requests: Any, context: Any) -> None:
            await self._calls.write(context, await answer(await self._calls.read(context, kind)))

        return aborting(call)

    async def _server_live(self, _request: Any) -> Any:
        return self._messages["ServerLiveResponse"](live=True)

    async def _server_ready(self, _request: Any) -> Any:
        return self._messages["ServerReadyResponse"](ready=self._interface.front.ready)

    async def _model_ready(self, request: Any) -> Any:
        try:
            ready = self._interface.is_ready(request.name, request.version)
        except ProtocolError:
            ready = False  # a question that a model which is not there answers, too
        return self._messages["ModelReadyResponse"](ready=ready)

    async def _server_metadata(self, _request: Any) -> Any:
        return self._messages["ServerMetadataResponse"](**self._interface.server_metadata())

    async def _model_metadata(self, request: Any) -> Any:
        metadata = self._interface.contract(request.name, request.version).metadata()
        return self._messages["ModelMetadataResponse"](**metadata)

    async def _model_config(self, request: Any) -> Any:
        config = write_config(self._interface.config(request.name, request.version))
        return self._messages["ModelConfigResponse"](config=config)

    async def _model_statistics(self, request: Any) -> Any:
        return self._messages["ModelStatisticsResponse"](**self._interface.statistics(request.name, request.version))

    async def _repository_index(self, request: Any) -> Any:
        return self._messages["RepositoryIndexResponse"](models=self._interface.index(request.ready))

    async def _repository_model_load(self, request: Any) -> Any:
        self._interface.load(request.model_name)
        return self._messages["RepositoryModelLoadResponse"]()

    async def _repository_model_unload(self, request: Any) -> Any:
        self._interface.unload(request.model_name)
        return self._messages["RepositoryModelUnloadResponse"]()

    async def _model_infer(self, request: Any) -> Any:
        front = self._interface.front
        contract = self._interface.contract(request.model_name, request.model_version)
        asked = front.needed(read_infer(contract, request))
        request.Clear()
        size = sum(len(each.content) for each in asked.inputs)
        self._calls.take(size)
        result: asyncio.Future[InferAnswer | ProtocolError] = asyncio.get_running_loop().create_future()

        def done(found: InferAnswer | ProtocolError) -> None:
            self._calls.reserve.give(size)
            if not result.done():
                result.set_result(found)

        front.infer(asked, done)
        answer = await result
        if isinstance(answer, ProtocolError):
            raise answer
        return write_infer(asked, answer)

    async def _stream(self, _requests: Any, context: Any) -> None:
        self._calls.begin_stream()
        try:
            while (raw := await context.read()) is not grpc.aio.EOF:
                await self._calls.write(context, await self._stream_answer(raw))
        finally:
            self._calls.end_stream()

    async def _stream_answer(self, raw: bytes) -> Any:
        """Answer one request after another; an error does not end the stream."""
        request, response = self._messages["ModelInferRequest"], self._messages["ModelStreamInferResponse"]
        asked: Any = None
        try:
            asked = self._calls.parse(request, raw)
            return response(infer_response=await self._model_infer(asked))
        except ProtocolError as error:
            told = {} if asked is None else {"model_name": asked.model_name, "id": asked.id}  # whose error it is
            return response(error_message=str(error), infer_response=told)


def aborting(call: Call) -> Call:
    """A call that ends with the status of what it raises."""

    async def found(requests: Any, context: Any) -> None:
        refusal: ProtocolError | None = None
        try:
            await call(requests, context)
        except ProtocolError as error:
            # gRPC keeps what `abort` raises, and with it this one, whose frames have the message: large ones piled up.
            refusal = error.with_traceback(None)
        if refusal is not None:
            await context.abort(getattr(grpc.StatusCode, refusal.status.grpc), str(refusal))

    return found


def _small(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("_")


class TokenCheck(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Lets nobody in without the token."""

    def __init__(self, token: str) -> None:
        self._token = token

        async def refuse(_requests: Any, context: Any) -> None:
            status = getattr(grpc.StatusCode, Status.UNAUTHORIZED.grpc)
            await context.abort(status, "a token is needed: authorization: Bearer TOKEN")

        self._refusal = grpc.stream_stream_rpc_method_handler(refuse)

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        """Look at the metadata of a call before anything else."""
        given = next((value for name, value in details.invocation_metadata if name == "authorization"), "")
        if shows_token(str(given).encode(), self._token):
            return await continuation(details)
        return self._refusal


async def start_grpc(
    interface: Interface, address: str, calls: Calls, *, token: str, tls: tuple[bytes, bytes] | None, most: int
) -> tuple[grpc.aio.Server, int]:
    """Listen for at most so many calls at once; returns the server and its port. `tls`: the key and certificates."""
    server = grpc.aio.server(
        interceptors=[TokenCheck(token)] if token else [], options=calls.options(), maximum_concurrent_rpcs=most
    )
    server.add_generic_rpc_handlers((GrpcService(interface, calls).handlers(),))
    _check_free(address)
    try:
        if tls is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, grpc.ssl_server_credentials([tls]))
    except RuntimeError:
        raise InputError("cannot be listened on", field="grpc_port", value=address) from None
    await server.start()
    return server, port


def _check_free(address: str) -> None:
    """Raise if a port is taken: gRPC would say so itself, on lines of its own."""
    host, _, port = address.rpartition(":")
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(where)
            trial.listen()
    except OSError as error:
        rule = f"cannot be listened on: {error.strerror or error}"
        raise InputError(rule, field="grpc_port", value=int(port)) from None
