"""Tells a process that was forked in the midst of work from one that can go on.

A fork copies memory and not threads. Polars, in which tables are made, would wait for its own for ever.
"""

from __future__ import annotations

import os
from pathlib import Path

from gpuyard.core.errors import GpuyardError

_THREADS = Path("/proc/self/task")
_WORKER = "polars-0"
"""What polars calls the first thread that it starts when there is work."""


class _Forks:
    """Looks in the parent, remembers in the child."""

    lost = False
    _there = False

    def look(self) -> None:
        self._there = self.lost or any(_name(thread) == _WORKER for thread in _THREADS.glob("*/comm"))

    def remember(self) -> None:
        self.lost = self._there


def _name(thread: Path) -> str:
    try:
        return thread.read_text().strip()
    except OSError:  # it has just ended
        return ""


_forks = _Forks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_forks.look, after_in_child=_forks.remember)


def check_fork() -> None:
    """Raise GpuyardError in a process that would wait for threads which only its parent has."""
    if _forks.lost:
        raise GpuyardError(
            "this process was forked from one that had already made tables, and would wait for its threads for ever. "
            "Start processes with spawn or forkserver: multiprocessing.get_context('forkserver')"
        )
