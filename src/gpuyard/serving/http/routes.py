"""The protocol's paths over HTTP."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from gpuyard.serving.http.values import HttpLimits, Request, Response, error_response, json_response
from gpuyard.serving.interface import Interface
from gpuyard.serving.metrics import CONTENT_TYPE, Metrics
from gpuyard.serving.protocol.errors import ProtocolError, Status, invalid
from gpuyard.serving.protocol.inference import InferAnswer, InferRequest
from gpuyard.serving.protocol.json_bodies import format_infer, parse_infer, parse_object

Respond = Callable[[Response], None]
OK = Response(200)
NOT_READY = Response(400)
ENCODINGS = (b"gzip", b"deflate")


class Routes:
    """From a request of HTTP to its response."""

    def __init__(self, interface: Interface, metrics: Metrics, limits: HttpLimits) -> None:
        self._interface, self._metrics, self._limits = interface, metrics, limits

    def handle(self, request: Request, respond: Respond) -> None:
        """Answer, now or later; `respond` is called exactly once."""
        try:
            response = self._route(request, respond)
        except ProtocolError as error:
            response = error_response(error)
        if response is not None:
            self._metrics.count_response(response.status)
            respond(response)

    def _route(self, request: Request, respond: Respond) -> Response | None:
        parts = request.path.strip("/").split("/")
        if parts[0] == "v2":
            match parts[1:]:
                case ["models", name, "infer"]:
                    self._infer(request, name, "", respond)
                    return None
                case ["models", name, "versions", version, "infer"]:
                    self._infer(request, name, version, respond)
                    return None
                case ["repository", *rest]:
                    return self._repository(request, rest)
                case rest:
                    return self._read(request, rest)
        if parts == ["metrics"]:
            _expect(request, b"GET")
            return Response(200, self._metrics.text(), CONTENT_TYPE)
        raise _unknown(request)

    def _read(self, request: Request, parts: list[str]) -> Response:
        _expect(request, b"GET")
        match parts:
            case [] | [""]:
                return json_response(self._interface.server_metadata())
            case ["health", "live"]:
                return OK
            case ["health", "ready"]:
                return OK if self._interface.front.ready else NOT_READY
            case ["models", "stats"]:
                return json_response(self._interface.statistics())
            case ["models", name, "versions", version, *rest]:
                return self._model(request, name, version, rest)
            case ["models", name, *rest]:
                return self._model(request, name, "", rest)
        raise _unknown(request)

    def _model(self, request: Request, name: str, version: str, rest: list[str]) -> Response:
        match rest:
            case []:
                return json_response(self._interface.contract(name, version).metadata())
            case ["ready"]:
                return OK if self._interface.is_ready(name, version) else NOT_READY
            case ["config"]:
                return json_response(self._interface.config(name, version))
            case ["stats"]:
                return json_response(self._interface.statistics(name, version))
        raise _unknown(request)

    def _repository(self, request: Request, parts: list[str]) -> Response:
        _expect(request, b"POST")
        match parts:
            case ["index"]:
                return json_response(self._interface.index(parse_object(request.body).get("ready") is True))
            case ["models", name, "load"]:
                self._interface.load(name)
                return OK
            case ["models", name, "unload"]:
                self._interface.unload(name)
                return OK
        raise _unknown(request)

    def _infer(self, request: Request, name: str, version: str, respond: Respond) -> None:
        _expect(request, b"POST")
        contract = self._interface.contract(name, version)
        body, length = self._body(request), request.headers.get(b"inference-header-content-length")
        if length is not None and not length.isdigit():
            raise invalid("Inference-Header-Content-Length is not a number")
        front = self._interface.front
        asked = front.needed(parse_infer(contract, body, None if length is None else int(length)))

        def done(result: InferAnswer | ProtocolError) -> None:
            response = _answer(asked, result) if isinstance(result, InferAnswer) else error_response(result)
            self._metrics.count_response(response.status)
            respond(response)

        front.infer(asked, done)

    def _body(self, request: Request) -> bytes:
        """The body, unpacked; what it would unpack to is bounded like any body."""
        encoding = request.headers.get(b"content-encoding", b"identity").lower()
        if encoding == b"identity":
            return request.body
        if encoding not in ENCODINGS:
            raise ProtocolError(Status.WRONG_ENCODING, "Content-Encoding must be gzip, deflate or identity")
        unpack = zlib.decompressobj(wbits=47 if encoding == b"gzip" else 15)
        try:
            body = unpack.decompress(request.body, self._limits.body_bytes + 1)
        except zlib.error as error:
            raise invalid(f"the body is not {encoding.decode()}: {error}") from None
        if len(body) > self._limits.body_bytes:
            raise ProtocolError(Status.TOO_LARGE, f"a body has at most {self._limits.body_bytes} bytes")
        return body


def _answer(asked: InferRequest, answer: InferAnswer) -> Response:
    try:
        body, json_length = format_infer(asked, answer)
    except ProtocolError as error:
        return error_response(error)
    queue_ms, compute_ms = answer.timing.queue_s * 1e3, answer.timing.compute_s * 1e3
    timing = (b"server-timing", b"queue;dur=%.3f, compute;dur=%.3f" % (queue_ms, compute_ms))
    if json_length is None:
        return Response(200, body, headers=(timing,))
    length = (b"inference-header-content-length", b"%d" % json_length)
    return Response(200, body, b"application/octet-stream", (length, timing))


def _expect(request: Request, method: bytes) -> None:
    if request.method != method:
        raise ProtocolError(Status.WRONG_METHOD, f"{request.path} is for {method.decode()}")


def _unknown(request: Request) -> ProtocolError:
    return ProtocolError(Status.UNKNOWN, f"{request.path} is not a path of this server")
