"""Between programs that let their batch sizes be chosen and the scheduler, which chooses them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import inf
from pathlib import Path
from secrets import token_hex

from gpuyard.client.session import RankName
from gpuyard.client.shared_batch import SOCKET, TASK, BatchWish
from gpuyard.sharing.task_daemon import TaskDaemon
from gpuyard.sharing.task_messages import TaskMessage
from gpuyard.sharing.task_tuning import TaskPlace

ANYWHERE = TaskPlace(0, inf)
"""Where a task is and how much memory it has is the scheduler's to know."""


class TaskRelay:
    """The socket of a node's agent that `SharedBatch` speaks with: what is said goes on to the scheduler."""

    def __init__(
        self, socket: str, said: Callable[[RankName, str], None], wish: Callable[[RankName], BatchWish | None]
    ) -> None:
        """`said` hears what a process says; `wish` has what its lease wishes."""
        self._said, self._wish = said, wish
        self._names: dict[str, RankName] = {}
        self._socket = socket
        self._daemon = TaskDaemon(Path(socket), self, lambda secret: ANYWHERE if secret in self._names else None)
        threading.Thread(target=self._daemon.run, name="batch sizes", daemon=True).start()

    def environment(self, name: RankName) -> dict[str, str]:
        """By which a process that is about to start finds the socket, and shows who it is."""
        secret = token_hex(16)
        self._names[secret] = name
        return {SOCKET: self._socket, TASK: secret}

    def forget(self, name: RankName) -> None:
        """A process has ended: nobody may speak for it any more."""
        self._names = {secret: other for secret, other in self._names.items() if other != name}

    def hear(self, _place: TaskPlace, message: TaskMessage, _now: float) -> BatchWish | None:
        """Pass on what a process says, under a name that is no secret; answer with what its lease wishes."""
        name = self._names.get(message.task)
        if name is None:
            return None
        self._said(name, message.model_copy(update={"task": "-"}).model_dump_json())
        return self._wish(name)

    def leave(self, _gpu: int, _name: str, _now: float) -> None:
        """A connection has ended; the scheduler hears of it when the process has."""

    def time_passed(self, _now: float) -> None:
        """Whoever is silent is the scheduler's business."""

    def close(self) -> None:
        """Hear nobody any more."""
        self._daemon.stop()
        self._daemon.server_close()
