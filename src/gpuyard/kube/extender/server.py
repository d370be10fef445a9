"""The extender over HTTP, with TLS: scheduling for who shows a certificate of the cluster's, health for anybody."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from gpuyard.core.errors import InputError, MissingExtraError
from gpuyard.kube.extender.answers import Extender
from gpuyard.kube.extender.metrics import ExtenderMetrics

try:
    import orjson
except ImportError:
    raise MissingExtraError("gpuyard kube extender", "kube") from None

MOST_BYTES = 256 * 2**20
"""Of a question: 5,000 nodes in full take some 50 MB."""
SILENT_S = 300.0
STRANGER_S = 10.0
"""How long who has shown no certificate may be silent: kubelets and monitors, who ask for little, or nobody we know."""
MOST_OF_STRANGER = 65536
"""Of what they send only so much is read, and thrown away: then the answer is sure to reach them."""
OK, FORBIDDEN, NOT_FOUND, TOO_LARGE, NOT_READY = 200, 403, 404, 413, 503


class ExtenderServer(ThreadingHTTPServer):
    """Listens for the scheduler."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        extender: Extender,
        metrics: ExtenderMetrics,
        ready: Callable[[], str],
        tls: ssl.SSLContext | None = None,
        broken: Callable[[], str] = lambda: "",
    ) -> None:
        """`ready` says what is still missing; nothing when calls can be answered.

        `broken` says what only a new process can mend.
        """
        self.metrics, self.ready, self.tls, self.broken = metrics, ready, tls, broken
        self.calls: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], bool]]] = {
            "/filter": (extender.filter, _has_error),
            "/prioritize": (extender.prioritize, lambda scores: not scores),
            "/bind": (extender.bind, _has_error),
        }
        try:
            super().__init__(address, _Handler)
        except OSError as error:
            rule = f"cannot be listened on: {error.strerror or error}"
            raise InputError(rule, field="listen", value=f"{address[0]}:{address[1]}") from None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that speaks no TLS, or goes away: nobody's concern here."""


def _has_error(answer: Mapping[str, Any]) -> bool:
    return bool(answer["Error"])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = SILENT_S
    disable_nagle_algorithm = True
    wbufsize = -1
    server: ExtenderServer

    def setup(self) -> None:
        if self.server.tls is not None:  # here, in the thread of this connection: a slow one holds up nobody
            self.request.settimeout(STRANGER_S)
            self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        super().setup()
        if not self._is_scheduler():
            self.request.settimeout(STRANGER_S)

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()
        self.request.close()  # of a TLS connection, the server knows only what it was before

    def do_GET(self) -> None:
        if self.path == "/healthz":
            self._all_is_well_but(self.server.broken())
        elif self.path == "/readyz":
            self._all_is_well_but(self.server.ready())
        elif self.path == "/metrics":
            self._answer(OK, self.server.metrics.page(), "text/plain; version=0.0.4")
        else:
            self._answer(NOT_FOUND, b"not found", "text/plain")

    def _all_is_well_but(self, wrong: str) -> None:
        self._answer(NOT_READY if wrong else OK, (wrong or "ok").encode(), "text/plain")

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            self.close_connection = True
            self._answer(TOO_LARGE, b"the length must be stated, and not too large", "text/plain")
            return
        if not self._is_scheduler():
            self.rfile.read(min(int(length), MOST_OF_STRANGER))
            self._answer(FORBIDDEN, b"only who shows a certificate of this cluster's may ask", "text/plain")
            return
        body = self.rfile.read(int(length))
        if self.path not in self.server.calls:
            self._answer(NOT_FOUND, b"not found", "text/plain")
        else:
            answer, is_error = self.server.calls[self.path]
            found = self.server.metrics.timed(self.path[1:], lambda: answer(_parsed(body)), is_error)
            self._answer(OK, orjson.dumps(found), "application/json")

    def _is_scheduler(self) -> bool:
        tls = self.server.tls
        if tls is None or tls.verify_mode is ssl.CERT_NONE:
            return True
        return isinstance(self.request, ssl.SSLSocket) and bool(self.request.getpeercert())

    def _answer(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if not self._is_scheduler():  # one question each: no connection is kept for them
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Calls are counted, not written down."""


def _parsed(body: bytes) -> Any:
    """What was sent; None, which no call understands, if it is no JSON."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def server_tls(certificate: Path, key: Path, clients: Path | None) -> ssl.SSLContext:
    """TLS with this certificate; with `clients`, who schedules must show one that this authority signed."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        tls.load_cert_chain(certificate, key)
        if clients is not None:
            tls.load_verify_locations(clients)
            tls.verify_mode = ssl.CERT_OPTIONAL  # probes show none
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"cannot be used for TLS: {error}", file=certificate) from None
    return tls
