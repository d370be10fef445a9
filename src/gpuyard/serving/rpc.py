"""The protocol over gRPC."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from gpuyard.core.errors import InputError
from gpuyard.serving.interface import Interface
from gpuyard.serving.protocol.errors import ProtocolError, Status
from gpuyard.serving.protocol.grpc_bodies import read_infer, write_config, write_infer
from gpuyard.serving.protocol.inference import InferAnswer
from gpuyard.serving.protocol.messages import METHODS, SERVICE, STREAM, messages


class GrpcService:
    """From messages to answers; each method of the protocol has one of its name here, in small letters."""

    def __init__(self, interface: Interface) -> None:
        self._interface = interface
        self._messages = messages()

    def handlers(self) -> grpc.GenericRpcHandler:
        """What a gRPC server needs to call the methods."""
        found = {name: self._handler(name) for name in METHODS}
        request, response = self._messages["ModelInferRequest"], self._messages["ModelStreamInferResponse"]
        found[STREAM] = grpc.stream_stream_rpc_method_handler(
            self._stream, request.FromString, response.SerializeToString
        )
        return grpc.method_handlers_generic_handler(SERVICE, found)

    def _handler(self, name: str) -> Any:
        answer: Callable[[Any], Awaitable[Any]] = getattr(self, "_" + _small(name))

        async def call(request: Any, context: Any) -> Any:
            try:
                return await answer(request)
            except ProtocolError as error:
                await context.abort(getattr(grpc.StatusCode, error.status.grpc), str(error))

        request, response = self._messages[f"{name}Request"], self._messages[f"{name}Response"]
        return grpc.unary_unary_rpc_method_handler(call, request.FromString, response.SerializeToString)

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
        asked = read_infer(self._interface.contract(request.model_name, request.model_version), request)
        result: asyncio.Future[InferAnswer | ProtocolError] = asyncio.get_running_loop().create_future()
        self._interface.front.infer(asked, lambda found: None if result.done() else result.set_result(found))
        answer = await result
        if isinstance(answer, ProtocolError):
            raise answer
        return write_infer(asked, answer)

    async def _stream(self, requests: AsyncIterator[Any], _context: Any) -> AsyncIterator[Any]:
        """Answer one request after another; an error does not end the stream."""
        response = self._messages["ModelStreamInferResponse"]
        async for request in requests:
            try:
                yield response(infer_response=await self._model_infer(request))
            except ProtocolError as error:
                told = {"model_name": request.model_name, "id": request.id}  # whose error it is
                yield response(error_message=str(error), infer_response=told)


def _small(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("_")


class TokenCheck(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Lets nobody in without the token."""

    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}"

        async def refuse(_request: Any, context: Any) -> None:
            status = getattr(grpc.StatusCode, Status.UNAUTHORIZED.grpc)
            await context.abort(status, "a token is needed: authorization: Bearer TOKEN")

        self._refusal = grpc.unary_unary_rpc_method_handler(refuse)

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        """Look at the metadata of a call before anything else."""
        given = next((value for name, value in details.invocation_metadata if name == "authorization"), "")
        if hmac.compare_digest(str(given).encode(), self._expected.encode()):
            return await continuation(details)
        return self._refusal


async def start_grpc(
    interface: Interface, address: str, *, token: str, tls: tuple[bytes, bytes] | None, body_bytes: int, calls: int
) -> tuple[grpc.aio.Server, int]:
    """Listen; returns the server and its port. `tls` has the key and the certificates."""
    options = [("grpc.max_receive_message_length", body_bytes), ("grpc.max_send_message_length", -1)]
    options += [("grpc.so_reuseport", 0)]
    server = grpc.aio.server(
        interceptors=[TokenCheck(token)] if token else [], options=options, maximum_concurrent_rpcs=calls
    )
    server.add_generic_rpc_handlers((GrpcService(interface).handlers(),))
    try:
        if tls is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, grpc.ssl_server_credentials([tls]))
    except RuntimeError:
        raise InputError("cannot be listened on", field="grpc_port", value=address) from None
    await server.start()
    return server, port
