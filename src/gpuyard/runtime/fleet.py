"""Where agents are started: the one seam between a run and the machines that it runs on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from gpuyard.client.session import SOCKET
from gpuyard.runtime.addresses import AgentSettings
from gpuyard.runtime.process_ids import end_all_with, is_still, started


class AgentFleet(Protocol):
    """Starts agents and knows whether they live."""

    host: str
    """By which agents reach the scheduler; empty where all are on its machine, and a socket will do."""

    def reserve(self) -> None:
        """Take the places of all agents before the first is started; InputError if there are none."""

    def start(self, node: str, settings: Path) -> None:
        """Start the agent of a node, soon; the file of settings tells it all."""

    def lives(self, node: str) -> bool:
        """Whether the agent of a node is there, or about to be."""

    def end(self, node: str) -> None:
        """See to it that the agent of a node is no more, nor what it started."""

    def handles(self) -> dict[str, Any]:
        """What another scheduler has to know to find the agents, as JSON knows it."""

    def adopt(self, found: Mapping[str, Any]) -> None:
        """Take over the agents of an earlier scheduler."""

    def stop(self) -> None:
        """See to it that no agent is left."""


class LocalFleet:
    """An agent is a process of this machine. It outlives the scheduler, which may be started again."""

    host = ""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int, str]] = {}
        """The process of each agent, when it was started, and its socket."""
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def reserve(self) -> None:
        """There is no place to take."""

    def start(self, node: str, settings: Path) -> None:
        """Start the agent of a node."""
        with (settings.parent / "log").open("ab") as log:
            child = subprocess.Popen(  # noqa: S603 - no shell, and our own words
                self.words(settings), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        self._children[node] = child
        self._known[node] = child.pid, started(child.pid), AgentSettings.read(settings).socket_of(child.pid)

    def words(self, settings: Path) -> list[str]:
        """The command of an agent."""
        return [sys.executable, "-m", "gpuyard.runtime.agent", str(settings)]

    def lives(self, node: str) -> bool:
        """Whether the agent of a node is there."""
        child = self._children.get(node)
        if child is not None:
            return child.poll() is None
        return node in self._known and is_still(*self._known[node][:2])

    def end(self, node: str) -> None:
        """Kill the agent of a node; its processes die with it, and what these have started is ended."""
        if self.lives(node):
            with suppress(ProcessLookupError):
                os.kill(self._known[node][0], signal.SIGKILL)
        if node in self._known:
            end_all_with({SOCKET: self._known[node][2]})

    def handles(self) -> dict[str, Any]:
        """Processes of agents."""
        return dict(self._known)

    def adopt(self, found: Mapping[str, Any]) -> None:
        """Take over the agents of an earlier scheduler that live."""
        self._known = {node: tuple(handle) for node, handle in found.items()}
        for node in [node for node in self._known if not self.lives(node)]:
            self.end(node)
            del self._known[node]

    def stop(self, patience_s: float = 5.0) -> None:
        """Wait for agents that were told to end, and end those that do not."""
        end = time.monotonic() + patience_s
        while any(map(self.lives, self._known)) and time.monotonic() < end:
            time.sleep(0.02)
        for node in self._known:
            self.end(node)
        for child in self._children.values():
            child.wait()
