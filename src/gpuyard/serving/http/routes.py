"""The protocol's paths over HTTP."""

from __future__ import annotations

import traceback
import zlib
from collections.abc import Callable

from gpuyard.core.served_names import ALL
from gpuyard.serving.http.packing import ENCODINGS, unpack
from gpuyard.serving.http.paths import parts_of, split_model
from gpuyard.serving.http.values import HEAD, HttpLimits, Request, Response, error_response, json_response
from gpuyard.serving.interface import Interface
from gpuyard.serving.metrics import CONTENT_TYPE, Metrics
from gpuyard.serving.protocol.contract import Contract
from gpuyard.serving.protocol.errors import ProtocolError, Status, invalid
from gpuyard.serving.protocol.inference import InferAnswer, InferRequest
from gpuyard.serving.protocol.json_bodies import format_infer, parse_infer, parse_object, too_large

Respond = Callable[[Response], None]
FoundRoute = tuple[bytes, Callable[[Request, Respond], Response | None]]
"""What a path is for: a method, and how to answer it."""
OK = Response(200)
GET, POST = b"GET", b"POST"
MOST_DIGITS = 20
ALLOWED = {GET: (GET, HEAD), POST: (POST,)}


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
        except Exception as error:  # a fault of ours, and no reason to let a client wait for ever
            traceback.print_exc()
            response = error_response(ProtocolError(Status.INTERNAL, f"the server has failed: {type(error).__name__}"))
        if response is not None:
            self._metrics.count_response(response.status)
            respond(response)

    def _route(self, request: Request, respond: Respond) -> Response | None:
        method, answer = self._find(request)
        if request.method not in ALLOWED[method]:
            return _wrong_method(request, method)
        return answer(request, respond)

    def _find(self, request: Request) -> FoundRoute:
        """The method that a path is for, and what to do; raises if there is no such path."""
        match parts_of(request.path):
            case ["v2", "models", *rest] if rest not in ([], [ALL]):
                return self._find_of_model(request, rest)
            case ["v2", "repository", *rest]:
                return self._find_of_repository(request, rest)
            case ["v2", *rest]:
                return self._find_of_server(request, rest)
            case ["metrics"]:
                return _read(lambda: Response(200, self._metrics.text(), CONTENT_TYPE))
        raise _unknown(request)

    def _find_of_server(self, request: Request, parts: list[str]) -> FoundRoute:
        interface = self._interface
        match parts:
            case []:
                return _read(lambda: json_response(interface.server_metadata()))
            case ["health", "live"]:
                return _read(lambda: json_response({"live": True}))
            case ["health", "ready"]:
                return _read(lambda: _readiness(interface.front.ready))
            case ["models", _]:
                return _read(lambda: json_response(interface.statistics()))
        raise _unknown(request)

    def _find_of_model(self, request: Request, parts: list[str]) -> FoundRoute:
        name, rest = split_model(parts, self._interface.front.contracts)
        version = ""
        if rest[:1] == ["versions"] and len(rest) > 1:
            version, rest = rest[1], rest[2:]
        interface = self._interface
        match rest:
            case []:
                return _read(lambda: json_response(interface.contract(name, version).metadata()))
            case ["ready"]:
                return _read(lambda: _readiness(interface.is_ready(name, version), name=name))
            case ["config"]:
                return _read(lambda: json_response(interface.config(name, version)))
            case ["stats"]:
                return _read(lambda: json_response(interface.statistics(name, version)))
            case ["infer"]:
                return POST, lambda request, respond: self._infer(request, name, version, respond)
        raise _unknown(request)

    def _find_of_repository(self, request: Request, parts: list[str]) -> FoundRoute:
        match parts:
            case ["index"]:
                return POST, self._index
            case ["models", *names, "load"] if names:
                return _switch(self._interface.load, "/".join(names))
            case ["models", *names, "unload"] if names:
                return _switch(self._interface.unload, "/".join(names))
        raise _unknown(request)

    def _index(self, request: Request, _respond: Respond) -> Response:
        return json_response(self._interface.index(parse_object(request.body).get("ready") is True))

    def _infer(self, request: Request, name: str, version: str, respond: Respond) -> None:
        contract = self._interface.contract(name, version)
        body, length = self._body(request, contract), request.headers.get(b"inference-header-content-length")
        if length is not None and not (length.isdigit() and len(length) < MOST_DIGITS):
            raise invalid("Inference-Header-Content-Length is not a number of bytes")
        front = self._interface.front
        asked = front.needed(parse_infer(contract, body, None if length is None else int(length)))

        def done(result: InferAnswer | ProtocolError) -> None:
            response = _answer(asked, result) if isinstance(result, InferAnswer) else error_response(result)
            self._metrics.count_response(response.status)
            respond(response)

        front.infer(asked, done)

    def _body(self, request: Request, contract: Contract) -> bytes:
        """The body, unpacked; what it would unpack to is bounded like any body, by what the model can take."""
        encoding, most = request.headers.get(b"content-encoding", b"identity").lower(), self._limits.body_bytes
        if encoding == b"identity":
            if len(request.body) > contract.most_bytes:
                raise too_large(contract)
            return request.body
        if encoding not in ENCODINGS:
            raise ProtocolError(Status.WRONG_ENCODING, "Content-Encoding must be gzip, deflate or identity")
        try:
            body = unpack(request.body, encoding, int(min(most, contract.most_bytes)) + 1)
        except zlib.error as error:
            raise invalid(f"the body is not {encoding.decode()}: {error}") from None
        if len(body) > most:
            raise ProtocolError(Status.TOO_LARGE, f"a body has at most {most} bytes")
        if len(body) > contract.most_bytes:
            raise too_large(contract)
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


def _read(answer: Callable[[], Response]) -> FoundRoute:
    return GET, lambda _request, _respond: answer()


def _switch(change: Callable[[str], None], name: str) -> FoundRoute:
    def answer(_request: Request, _respond: Respond) -> Response:
        change(name)
        return OK

    return POST, answer


def _readiness(ready: bool, **about: str) -> Response:
    return json_response({**about, "ready": ready}, 200 if ready else 400)


def _wrong_method(request: Request, method: bytes) -> Response:
    error = ProtocolError(Status.WRONG_METHOD, f"{request.path} is for {method.decode()}")
    return error_response(error, (b"allow", b", ".join(ALLOWED[method])))


def _unknown(request: Request) -> ProtocolError:
    return ProtocolError(Status.UNKNOWN, f"{request.path} is not a path of this server")
