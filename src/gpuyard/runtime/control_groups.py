"""Memory, and parts of CPUs, by control groups of the kernel: a group for each attempt, below one that may be written.

Both versions of control groups will do; in version 1 it is the hierarchy of memory, which knows nothing of CPUs.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Hashable
from contextlib import suppress
from pathlib import Path

from gpuyard.core.errors import InputError
from gpuyard.runtime.process_ids import is_still, started

PERIOD_US = 100_000
"""CPU time is given out by this period."""
LEAST_QUOTA_US = 1000
"""The kernel takes no less."""
GB = 1e9
_PREFIX = "gpuyard"
_MEMBERS = "cgroup.procs"


def check_control_group(folder: Path) -> None:
    """Refuse a folder below which no groups can be made that limit memory."""
    if not (folder / _MEMBERS).exists():
        hint = "systemd-run --user --scope -p Delegate=yes gives a command one of its own"
        raise InputError("is no control group", file=folder, hint=hint)
    try:
        if _is_second_version(folder):
            (folder / "cgroup.subtree_control").write_text("+memory +cpu")
        trial = folder / f"{_PREFIX}-{os.getpid()}-trial"
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        hint = "It must be yours, with memory and cpu among its controllers and no processes of its own"
        raise InputError(f"takes no groups: {error.strerror}", file=folder, hint=hint) from error


class ControlGroups:
    """The groups of one node's jobs; without a folder nobody is held to anything."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder) if folder else None
        self._numbers = itertools.count()
        self._groups: dict[Hashable, Path] = {}
        self._clear_away()

    def hold(self, holder: Hashable, cpus: float, memory_gb: float) -> None:
        """From now on these limits hold; OSError where the kernel refuses, as it may if more memory is in use."""
        if self._folder is None:
            return
        if holder not in self._groups:
            me = os.getpid()
            group = self._folder / f"{_PREFIX}-{me}-{started(me)}-{next(self._numbers)}"
            group.mkdir()
            self._groups[holder] = group
        _limit(self._groups[holder], cpus, memory_gb)

    def add(self, holder: Hashable, pid: int) -> None:
        """Let the limits hold for a process, and for all that it will start."""
        group = self._groups.get(holder)
        if group is not None:
            (group / _MEMBERS).write_text(str(pid))

    def drop(self, holder: Hashable) -> None:
        """No process of the holder is left."""
        group = self._groups.pop(holder, None)
        if group is not None:
            _remove(group)

    def _clear_away(self) -> None:
        """Remove groups of agents that were killed."""
        for group in self._folder.glob(f"{_PREFIX}-*-*-*") if self._folder is not None else ():
            pid, start = group.name.split("-")[1:3]
            if pid.isdigit() and start.isdigit() and not is_still(int(pid), int(start)):
                _remove(group)


def _limit(group: Path, cpus: float, memory_gb: float) -> None:
    memory_bytes = str(int(memory_gb * GB))
    if _is_second_version(group.parent):
        (group / "memory.max").write_text(memory_bytes)
        (group / "cpu.max").write_text(f"{max(int(cpus * PERIOD_US), LEAST_QUOTA_US)} {PERIOD_US}")
    else:
        (group / "memory.limit_in_bytes").write_text(memory_bytes)


def _remove(group: Path) -> None:
    with suppress(OSError):  # a process is still about to end: the next agent will remove it
        group.rmdir()


def _is_second_version(folder: Path) -> bool:
    return (folder / "cgroup.controllers").exists()
