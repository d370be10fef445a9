"""A socket of a node at which tasks say how they train, and hear which batch size is wished of them."""

from __future__ import annotations

import json
import socket
import socketserver
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from gpuyard.client.shared_batch import BatchWish
from gpuyard.core.errors import InputError
from gpuyard.core.steady_thread import SteadyThread
from gpuyard.sharing.task_messages import TaskMessage, read_message
from gpuyard.sharing.task_tuning import TaskPlace

MOST_BYTES = 65536
SILENT_S, STRANGER_S = 60.0, 5.0
"""How long a task may be silent, and who has not said yet which one it is."""
MOST_STRANGERS, MOST_OF_TASK = 64, 8
"""Connections of all who have not said who they are, of which the oldest goes first; and of each task."""
LOOK_S = 1.0
FOR_ALL = 0o666
"""Tasks run as any user; who has no secret that was noted for it is not heard."""


FindTask = Callable[[str], TaskPlace | None]


class TaskListener(Protocol):
    """Who hears what tasks say: the tuners of a node, or somebody who passes it on to them."""

    def hear(self, place: TaskPlace, message: TaskMessage, now: float) -> BatchWish | None:
        """A task has said how it is; returns what is wished of it, if anything."""

    def leave(self, gpu: int, name: str, now: float) -> None:
        """A task has gone."""

    def time_passed(self, now: float) -> None:
        """Now and then, whatever is said."""


class TaskDaemon(socketserver.ThreadingUnixStreamServer):
    """Listens for the tasks of a node."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        socket_path: Path,
        tuning: TaskListener,
        find: FindTask,
        clock: Callable[[], float] = time.monotonic,
        lock: threading.RLock | None = None,
        say: Callable[[str], None] = print,
    ) -> None:
        """`find` has the place of a task by its secret; None where nobody was given that one.

        Whoever else uses the tuning holds the same `lock`. InputError if another daemon listens here.
        """
        self.tuning, self.find, self.clock = tuning, find, clock
        self.lock = lock or threading.RLock()
        self.spoken: Counter[str] = Counter()
        """By name, the connections of a task: one that was broken may be noticed later than the next one."""
        self.over = threading.Event()
        self._looks = SteadyThread("task daemon", self._look, LOOK_S, say)
        self._say, self._told = say, set[str]()
        self._strangers: OrderedDict[socket.socket, None] = OrderedDict()
        """Connections that have not said who they are, the oldest first."""
        self._door = threading.Lock()
        socket_path.parent.mkdir(parents=True, exist_ok=True)
        _refuse_if_held(socket_path)
        socket_path.unlink(missing_ok=True)
        super().__init__(str(socket_path), _TaskHandler)
        socket_path.chmod(FOR_ALL)

    def run(self) -> None:
        """Answer until `stop`."""
        self._looks.start()
        self.serve_forever(LOOK_S / 10)

    def stop(self) -> None:
        """End `run`."""
        self.over.set()
        self._looks.stop()
        self.shutdown()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """A task that goes away in the middle of a line is nobody's concern here; anything else is said once."""
        error = sys.exception()
        if not isinstance(error, OSError) and repr(error) not in self._told:
            self._told.add(repr(error))
            self._say(f"a task could not be answered: {error!r}")

    def process_request(self, request: Any, client_address: Any) -> None:
        """Somebody has come: where too many have not said who they are, the one goes who came first."""
        with self._door:
            self._strangers[request] = None
            while len(self._strangers) > MOST_STRANGERS:
                with suppress(OSError):
                    self._strangers.popitem(last=False)[0].shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """A connection is over."""
        self.no_stranger(request)
        super().shutdown_request(request)

    def no_stranger(self, request: Any) -> None:
        """A connection has said who it is, or is over."""
        with self._door:
            self._strangers.pop(request, None)

    def _look(self) -> None:
        with self.lock:
            self.tuning.time_passed(self.clock())


def _refuse_if_held(path: Path) -> None:
    """A socket that was left behind may be taken; one at which somebody listens not."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.setblocking(False)
        try:
            asking.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return
        except BlockingIOError:
            pass  # he who listens has much to do
    raise InputError("is held by another daemon that lives", file=path, hint="End that one first")


class _TaskHandler(socketserver.StreamRequestHandler):
    timeout = STRANGER_S
    server: TaskDaemon

    def handle(self) -> None:
        """Hear one task until it goes; it is who it was in its first line."""
        name, place = "", None
        try:
            while line := self.rfile.readline(MOST_BYTES):
                answer, name, place = self._answer(line, name, place)
                self.wfile.write(json.dumps(answer).encode() + b"\n")
                if place is None or self.server.over.is_set():
                    return
        finally:
            if place is not None:
                self._end(name, place)

    def _end(self, name: str, place: TaskPlace) -> None:
        server = self.server
        with server.lock:
            server.spoken[name] -= 1
            if not server.spoken[name]:
                del server.spoken[name]
                server.tuning.leave(place.gpu, name, server.clock())

    def _answer(self, line: bytes, name: str, place: TaskPlace | None) -> tuple[dict[str, Any], str, TaskPlace | None]:
        try:
            message = read_message(line)
        except InputError as error:
            return {"error": str(error)}, name, place
        if place is None:
            name, place = self._meet(message.task)
        if place is None or message.task != name:
            return {"error": "this is no task of this node"}, name, place
        with self.server.lock:
            wish = self.server.tuning.hear(place, message, self.server.clock())
        return {"wish": None if wish is None else asdict(wish)}, name, place

    def _meet(self, name: str) -> tuple[str, TaskPlace | None]:
        """Somebody has said who he is; no place where nobody is called that, or too many at once say it."""
        server, place = self.server, self.server.find(name)
        with server.lock:
            if place is None or server.spoken[name] >= MOST_OF_TASK:
                return name, None
            server.spoken[name] += 1
        server.no_stranger(self.request)
        self.connection.settimeout(SILENT_S)
        return name, place
