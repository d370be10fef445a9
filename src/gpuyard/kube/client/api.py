"""The few requests that gpuyard makes to an API server, over plain HTTP, on connections that are kept."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from gpuyard.core.errors import GpuyardError
from gpuyard.kube.client.access import ApiAccess
from gpuyard.kube.json_objects import JsonObject

ANSWER_S = 4.0
"""The scheduler waits for 5 s; whoever asks on its behalf must know by then."""
PATIENT_S = 60.0
"""Who asks for people waits longer."""
IDLE_S, LONGEST_IDLE_S = 5.0, 60.0
WATCH_S = 240
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
TOO_MANY, SERVER_ERROR = 429, 500
_BROKEN = (OSError, http.client.HTTPException)


class ApiError(GpuyardError):
    """An API server refused something, or could not be reached."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        """Of HTTP; 0 where nobody knows whether the request was carried out."""

    @property
    def passes(self) -> bool:
        """Whether the answer may be another one when it is asked again."""
        return self.status in (0, TOO_MANY) or self.status >= SERVER_ERROR

    @property
    def not_found(self) -> bool:
        """Whether there is no such thing."""
        return self.status == http.client.NOT_FOUND


class Api:
    """One API server."""

    def __init__(self, access: ApiAccess, answer_s: float = ANSWER_S) -> None:
        self._access, self._answer_s = access, answer_s
        self._lock = threading.Lock()
        self._kept: list[tuple[http.client.HTTPConnection, float]] = []

    def get(self, path: str, **query: str) -> JsonObject:
        """One object, or a list of them."""
        return self.request("GET", _with(path, query))

    def post(self, path: str, body: Mapping[str, Any]) -> JsonObject:
        """Create an object."""
        return self.request("POST", path, body)

    def put(self, path: str, body: Mapping[str, Any]) -> JsonObject:
        """Replace an object: in the version that the body names, or not at all."""
        return self.request("PUT", path, body)

    def patch(self, path: str, body: Mapping[str, Any], *, kind: str = MERGE, **query: str) -> JsonObject:
        """Change some fields of an object."""
        return self.request("PATCH", _with(path, query), body, kind)

    def delete(self, path: str) -> JsonObject:
        """Remove an object."""
        return self.request("DELETE", path)

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, kind: str = "application/json"
    ) -> JsonObject:
        """Send a request and return its answer; ApiError if it is refused, or nobody knows what became of it."""
        content = None if body is None else json.dumps(body).encode()
        # A connection may have been closed while it was idle: what must not be sent twice takes a new one.
        connection = self._idle(LONGEST_IDLE_S if method == "GET" else IDLE_S)
        while True:
            fresh, connection = connection is None, connection or self._connect(self._answer_s)
            try:
                connection.request(method, path, content, self._headers(kind))
                answer = connection.getresponse()
                text = answer.read()
            except _BROKEN as error:
                connection.close()
                if method == "GET" and not fresh:
                    connection = None
                    continue
                raise ApiError(0, f"the API server did not answer: {error or type(error).__name__}") from None
            self._keep(connection)
            return _understood(answer.status, text)

    def watch(
        self, path: str, version: str, query: Mapping[str, str], *, seconds: int = WATCH_S
    ) -> Iterator[JsonObject]:
        """Events of a list from a version of it on, until the server ends the watch; ApiError if it cannot be had."""
        asked = {**query, "watch": "true", "resourceVersion": version, "timeoutSeconds": str(seconds)}
        connection = self._connect(seconds + self._answer_s)
        try:
            connection.request("GET", _with(path, asked | {"allowWatchBookmarks": "true"}), None, self._headers())
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                _understood(answer.status, answer.read())
            while line := answer.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise ApiError(int(event["object"].get("code", 500)), str(event["object"].get("message")))
                yield event
        except (*_BROKEN, ValueError, KeyError) as error:
            raise ApiError(0, f"a watch of {path} broke: {error or type(error).__name__}") from None
        finally:
            connection.close()

    def _headers(self, kind: str = "application/json") -> dict[str, str]:
        return {"Content-Type": kind, "Accept": "application/json", **self._access.headers()}

    def _idle(self, longest_s: float) -> http.client.HTTPConnection | None:
        """A connection that is not in use, and was not for longer than this."""
        with self._lock:
            found, last_used = self._kept.pop() if self._kept else (None, 0.0)
        if found is not None and time.monotonic() - last_used > longest_s:
            found.close()
            return None
        return found

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            self._kept.append((connection, time.monotonic()))

    def _connect(self, answer_s: float) -> http.client.HTTPConnection:
        access = self._access
        if access.tls is None:
            return http.client.HTTPConnection(access.host, access.port, timeout=answer_s)
        return http.client.HTTPSConnection(access.host, access.port, timeout=answer_s, context=access.tls)

    def close(self) -> None:
        """Close all connections that are kept."""
        with self._lock:
            for connection, _ in self._kept:
                connection.close()
            self._kept.clear()


def each_in_turn(calls: Iterable[Callable[[], object]]) -> None:
    """Make several requests: one that is refused does not keep the others from being made, and is raised then."""
    refused: ApiError | None = None
    for call in calls:
        try:
            call()
        except ApiError as error:
            if error.status == 0:
                raise  # nobody is there
            refused = refused or error
    if refused is not None:
        raise refused


def _with(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _understood(status: int, text: bytes) -> JsonObject:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = {}
    if status >= 400:
        message = answer.get("message") if isinstance(answer, dict) else None
        raise ApiError(status, str(message or text[:200].decode(errors="replace") or f"HTTP {status}"))
    return answer if isinstance(answer, dict) else {}


def pod_path(namespace: str, name: str) -> str:
    """Where a pod is."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
