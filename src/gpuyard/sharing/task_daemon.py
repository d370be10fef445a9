"""A socket of a node at which tasks say how they train, and hear which batch size is wished of them."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from gpuyard.client.shared_batch import BatchWish
from gpuyard.core.errors import InputError
from gpuyard.sharing.task_messages import TaskMessage, read_message
from gpuyard.sharing.task_tuning import TaskPlace

MOST_BYTES = 65536
SILENT_S = 60.0
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

    def __init__(
        self,
        socket_path: Path,
        tuning: TaskListener,
        find: FindTask,
        clock: Callable[[], float] = time.monotonic,
        lock: threading.RLock | None = None,
    ) -> None:
        """`find` has the place of a task by its secret; None where nobody was given that one.

        Whoever else uses the tuning holds the same `lock`.
        """
        self.tuning, self.find, self.clock = tuning, find, clock
        self.lock = lock or threading.RLock()
        self.spoken: Counter[str] = Counter()
        """By name, the connections of a task: one that was broken may be noticed later than the next one."""
        self.over = threading.Event()
        socket_path.parent.mkdir(parents=True, exist_ok=True)
        socket_path.unlink(missing_ok=True)
        super().__init__(str(socket_path), _TaskHandler)
        socket_path.chmod(FOR_ALL)

    def run(self) -> None:
        """Answer until `stop`."""
        threading.Thread(target=self._look, name="task daemon", daemon=True).start()
        self.serve_forever(LOOK_S / 10)

    def stop(self) -> None:
        """End `run`."""
        self.over.set()
        self.shutdown()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A task that goes away in the middle of a line: nobody's concern here."""

    def _look(self) -> None:
        while not self.over.wait(LOOK_S):
            with self.lock:
                self.tuning.time_passed(self.clock())


class _TaskHandler(socketserver.StreamRequestHandler):
    timeout = SILENT_S
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
            name, place = message.task, self.server.find(message.task)
            if place is not None:
                with self.server.lock:
                    self.server.spoken[name] += 1
        if place is None or message.task != name:
            return {"error": "this is no task of this node"}, name, place
        with self.server.lock:
            wish = self.server.tuning.hear(place, message, self.server.clock())
        return {"wish": None if wish is None else asdict(wish)}, name, place
