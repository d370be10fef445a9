"""Where agents are started: the one seam between a run and the machines that it runs on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gpuyard.runtime.addresses import AgentSettings, SchedulerAddress
from gpuyard.runtime.process_ids import is_still, started

Handle = list[int]
"""By which another scheduler finds an agent again: its process, and when that was started."""


class AgentFleet(Protocol):
    """Starts agents and knows whether they live."""

    def start(self, node: str) -> None:
        """Start the agent of a node."""

    def lives(self, node: str) -> bool:
        """Whether the agent of a node is there."""

    def handles(self) -> dict[str, Handle]:
        """What another scheduler has to know to find the agents."""

    def stop(self) -> None:
        """See to it that no agent is left."""


@dataclass
class LocalFleet:
    """An agent is a process of this machine. It outlives the scheduler, which may be started again."""

    folder: Path
    sockets: Path
    scheduler: SchedulerAddress
    beat_s: float
    lease_s: float
    known: dict[str, Handle] = field(default_factory=dict)
    children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, node: str) -> None:
        """Start the agent of a node."""
        number = sum(map(ord, node))
        socket = self.sockets / f"{node[:20]}-{number}"
        socket.unlink(missing_ok=True)
        home = self.folder / "nodes" / node
        home.mkdir(parents=True, exist_ok=True)
        AgentSettings(node, str(socket), self.scheduler, self.beat_s, self.lease_s).write(home / "agent.json")
        with (home / "log").open("ab") as log:
            child = subprocess.Popen(  # noqa: S603 - no shell, and our own words
                [sys.executable, "-m", "gpuyard.runtime.agent", str(home / "agent.json")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self.children[node] = child
        self.known[node] = [child.pid, started(child.pid)]

    def lives(self, node: str) -> bool:
        """Whether the agent of a node is there."""
        child = self.children.get(node)
        if child is not None:
            return child.poll() is None
        return node in self.known and is_still(*self.known[node])

    def handles(self) -> dict[str, Handle]:
        """Processes of agents."""
        return dict(self.known)

    def stop(self, patience_s: float = 5.0) -> None:
        """Wait for agents that were told to end, and end those that do not."""
        end = time.monotonic() + patience_s
        while any(map(self.lives, self.known)) and time.monotonic() < end:
            time.sleep(0.02)
        for node, handle in self.known.items():
            if self.lives(node):
                with suppress(ProcessLookupError):
                    os.kill(handle[0], signal.SIGKILL)
        for child in self.children.values():
            child.wait()


def adopt(found: Mapping[str, Handle] | None) -> dict[str, Handle]:
    """The agents of an earlier scheduler that live."""
    return {node: handle for node, handle in (found or {}).items() if is_still(*handle)}
