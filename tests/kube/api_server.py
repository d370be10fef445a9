"""A small API server in this process: objects with versions, watches, bindings as Kubernetes has them, and failures."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.kube.custom_resources import DEFINITION, InvalidError, definition_for, stored

from gpuyard.kube.client.access import ApiAccess
from gpuyard.kube.client.api import APPLY, Api

Json = dict[str, Any]
Failure = Callable[[str, str], int | None]
"""From method and path to the status with which a request fails; 0 drops the answer after it was carried out."""
LATE = -1
"""...and this one before it is carried out."""


LISTS = ("/nodes", "/pods", "/events")
STATUS = "/status"
PRECONDITIONS = ("resourceVersion", "uid")


class ApiStandIn:
    """Its objects are by path, such as /api/v1/nodes/n1."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.events: list[tuple[int, str, str, Json]] = []
        self.version = 0
        self.changed = threading.Condition()
        self.requests: list[tuple[str, str, Json]] = []
        self.heard: list[tuple[str, str, str]] = []
        """Of each request, watches too: who asked, by the token that was shown, the method and the whole path."""
        self.fails: Failure = lambda method, path: None
        self.late: list[tuple[str, str, Json]] = []
        """Requests that were not carried out yet, though nobody waits for their answers."""
        self.port = 0
        self.moment: Callable[[], str] | None = None
        """What is written into objects as the time at which they were created; None: nothing is."""
        self.graceful = False
        """Whether pods that are on a node stay until their node has ended them."""

    @cached_property
    def api(self) -> Api:
        """A client of it."""
        return Api(ApiAccess("127.0.0.1", self.port))

    def put(self, path: str, thing: Json) -> Json:
        """Create or replace an object."""
        with self.changed:
            kind = "MODIFIED" if path in self.objects else "ADDED"
            return self._note(kind, path, deepcopy(thing))

    def remove(self, path: str) -> None:
        """Delete an object."""
        with self.changed:
            self._note("DELETED", path, self.objects.pop(path))

    def add_pod(self, pod: Json) -> None:
        """Create a pod."""
        self.put(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}", pod)

    def pod(self, name: str, namespace: str = "lab") -> Json:
        """A pod as it is."""
        return self.objects[f"/api/v1/namespaces/{namespace}/pods/{name}"]

    def add_node(self, node: Json) -> None:
        """Create a node."""
        self.put(f"/api/v1/nodes/{node['metadata']['name']}", node)

    def break_watches(self, folder: str) -> None:
        """Tell whoever watches a list that what he has seen of it is too old."""
        with self.changed:
            self.version += 1
            self.events.append(
                (self.version, "ERROR", f"{folder}/-", {"code": 410, "message": "too old", "metadata": {}})
            )
            self.changed.notify_all()

    def _note(self, kind: str, path: str, thing: Json) -> Json:
        self.version += 1
        thing["metadata"]["resourceVersion"] = str(self.version)
        if thing.get("kind") == DEFINITION:
            thing["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
        if kind != "DELETED":
            self.objects[path] = thing
        self.events.append((self.version, kind, path, deepcopy(thing)))
        self.changed.notify_all()
        if kind == "DELETED":
            self._collect_garbage(thing)
        return thing

    def _collect_garbage(self, gone: Json) -> None:
        """What belonged to an object goes with it, and the objects of a kind with its definition."""
        uid, spec = gone["metadata"].get("uid"), gone.get("spec") or {}
        group = f"/apis/{spec['group']}/" if gone.get("kind") == DEFINITION else None
        for path, thing in list(self.objects.items()):
            owners = [each["uid"] for each in thing["metadata"].get("ownerReferences") or ()]
            of_kind = group and path.startswith(group) and thing["kind"] == spec["names"]["kind"]
            if (uid and uid in owners) or of_kind:
                self._note("DELETED", path, self.objects.pop(path))

    def answer(
        self, method: str, path: str, body: Json, selects: Callable[[Json], bool] = lambda _: True
    ) -> tuple[int, Json]:
        """Carry out a request; a list has what is selected."""
        self.requests.append((method, path, body))
        try:
            return self._carried_out(method, path, body, selects)
        except InvalidError as error:
            return 422, {"message": str(error)}

    def _carried_out(self, method: str, path: str, body: Json, selects: Callable[[Json], bool]) -> tuple[int, Json]:
        with self.changed:
            try:
                custom = definition_for(path, self.objects)
            except KeyError:
                return 404, {"message": "the server could not find the requested resource"}
            plural = f"/{custom['spec']['names']['plural']}" if custom else ""
            if method == "POST" and path.endswith("/binding"):
                return self._bind(path.removesuffix("/binding"), body)
            if method == "POST":
                return self._create(f"{path}/{body['metadata']['name']}", body)
            lists = (*LISTS, plural) if plural else LISTS
            if method == "GET" and path not in self.objects and not path.endswith(lists):
                return 404, {"message": f"{path} not found"}
            if method == "GET":
                return 200, self.objects.get(path) or self._list(path, selects)
            if method == "DELETE" and path in self.objects:
                return self._delete(path, body)
            path, status = (path.removesuffix(STATUS), True) if path.endswith(STATUS) else (path, False)
            if path not in self.objects:
                return 404, {"message": f"{path} not found"}
            return self._change(method, path, body, custom, status=status)

    def _delete(self, path: str, body: Json) -> tuple[int, Json]:
        """Remove an object; a pod that is on a node is only marked where nodes remove their pods themselves."""
        thing, wanted = deepcopy(self.objects[path]), (body.get("preconditions") or {}).get("uid")
        if wanted not in (None, thing["metadata"].get("uid")):
            return 409, {"message": "the object is another one"}
        ended = (thing.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if not self.graceful or "/pods/" not in path or ended or not (thing.get("spec") or {}).get("nodeName"):
            self._note("DELETED", path, self.objects.pop(path))
        else:
            thing["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z"}
            thing["metadata"] |= {"deletionGracePeriodSeconds": body.get("gracePeriodSeconds", 30)}
            self._note("MODIFIED", path, thing)
        return 200, {}

    def _list(self, path: str, selects: Callable[[Json], bool]) -> Json:
        items = [thing for where, thing in self.objects.items() if is_in(where, path) and selects(thing)]
        return {"metadata": {"resourceVersion": str(self.version)}, "items": items}

    def _create(self, path: str, body: Json) -> tuple[int, Json]:
        if path in self.objects:
            return 409, {"message": f"{path} exists"}
        custom = definition_for(path, self.objects)
        fresh = stored(custom, None, body, status=False) if custom else deepcopy(body)
        fresh["metadata"].setdefault("uid", f"uid-{self.version + 1}")
        if self.moment is not None:
            fresh["metadata"].setdefault("creationTimestamp", self.moment())
        if "/pods/" in path:
            fresh.setdefault("status", {"phase": "Pending"})
        return 201, self._note("ADDED", path, fresh)

    def _change(self, method: str, path: str, body: Json, custom: Json | None, *, status: bool) -> tuple[int, Json]:
        before = self.objects[path]
        stated = (body.get("metadata") or {}).get("resourceVersion")
        uid = (body.get("metadata") or {}).get("uid")
        if stated not in (None, before["metadata"]["resourceVersion"]) or uid not in (
            None,
            before["metadata"].get("uid"),
        ):
            return 409, {"message": "the object has been modified"}
        after = deepcopy(body) if method == "PUT" else merged(before, body)
        return 200, self._note("MODIFIED", path, stored(custom, before, after, status=status) if custom else after)

    def _bind(self, path: str, body: Json) -> tuple[int, Json]:
        if path not in self.objects:
            return 404, {"message": "pod not found"}
        pod = deepcopy(self.objects[path])
        if pod["spec"].get("nodeName"):
            return 409, {"message": f"pod is already assigned to node {pod['spec']['nodeName']}"}
        pod["spec"]["nodeName"] = body["target"]["name"]
        pod["metadata"].setdefault("annotations", {}).update(body["metadata"].get("annotations") or {})
        self._note("MODIFIED", path, pod)
        return 201, {}


def is_in(where: str, folder: str) -> bool:
    """Whether an object is in a list; lists over all namespaces have no namespace in their path."""
    namespaced = where.split("/namespaces/")
    everywhere = "/".join([namespaced[0], namespaced[1].split("/", 1)[1]]) if len(namespaced) == 2 else where
    return folder in (where.rsplit("/", 1)[0], everywhere.rsplit("/", 1)[0])


def selection(query: dict[str, list[str]]) -> Callable[[Json], bool]:
    """By labels, and by the node of pods, each equal to something."""
    labels = [each.split("=", 1) for asked in query.get("labelSelector", []) for each in asked.split(",")]
    nodes = [asked.split("=", 1)[1] for asked in query.get("fieldSelector", []) if asked.startswith("spec.nodeName=")]

    def selects(thing: Json) -> bool:
        has = thing["metadata"].get("labels") or {}
        on = (thing.get("spec") or {}).get("nodeName")
        return all(has.get(key) == value for key, value in labels) and all(on == node for node in nodes)

    return selects


def merged(before: Json, change: Json) -> Json:
    """A merge patch."""
    after = deepcopy(before)
    for key, value in change.items():
        if value is None:
            after.pop(key, None)
        elif isinstance(value, dict):
            after[key] = merged(after.get(key) or {}, value)
        else:
            after[key] = value
    return after


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    stand_in: ApiStandIn

    def _handle(self) -> None:
        asked = urlsplit(self.path)
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        self.stand_in.heard.append((token, self.command, self.path))
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        query = parse_qs(asked.query)
        if "watch" in query:
            self._watch(asked.path, int(query["resourceVersion"][0]), selection(query))
            return
        failure = self.stand_in.fails(self.command, asked.path)
        if failure == LATE:
            self.stand_in.late.append((self.command, asked.path, body))
            self.close_connection = True
            return
        if failure:
            self._answer(failure, {"message": "it failed"})
            return
        applied = self.headers.get("Content-Type") == APPLY and asked.path not in self.stand_in.objects
        if applied:
            self.stand_in.put(asked.path, body)
        status, answer = self.stand_in.answer(self.command, asked.path, body, selection(query))
        if failure == 0:
            self.close_connection = True
        else:
            self._answer(status, answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815

    def _watch(self, folder: str, version: int, selects: Callable[[Json], bool]) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True
        while True:
            with self.stand_in.changed:
                new = [each for each in self.stand_in.events if each[0] > version]
                if not new and not self.stand_in.changed.wait(10):
                    return
            for number, kind, path, thing in new:
                version = number
                if is_in(path, folder) and selects(thing):
                    self.wfile.write(json.dumps({"type": kind, "object": thing}).encode() + b"\n")
                    self.wfile.flush()
                elif kind == "STOP":
                    return

    def _answer(self, status: int, answer: Json) -> None:
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


@contextmanager
def api_server() -> Iterator[ApiStandIn]:
    """An API server without any object."""
    stand_in = ApiStandIn()
    handler = type("Handler", (_Handler,), {"stand_in": stand_in})
    with _Server(("127.0.0.1", 0), handler) as server:
        stand_in.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield stand_in
        finally:
            stand_in.api.close()
            with stand_in.changed:
                stand_in._note("STOP", "", {"metadata": {}})
            server.shutdown()
            thread.join()
