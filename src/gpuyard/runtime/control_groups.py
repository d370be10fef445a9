"""Memory, and parts of CPUs, by control groups of the kernel: a group for each attempt, below ones that may be written.

Both versions of control groups will do. In version 1 memory and CPU time are in hierarchies of their own, so an attempt
has a group in each that was named.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from gpuyard.core.errors import InputError
from gpuyard.runtime.process_ids import is_still, started

PERIOD_US = 100_000
"""CPU time is given out by this period."""
LEAST_QUOTA_US = 1000
"""The kernel takes no less."""
GB = 1e9
MEMORY, CPU_TIME = "memory", "CPU time"
EMPTY_S = 5.0
"""How long processes that were killed may take to be gone."""
_PREFIX = "gpuyard"
_MEMBERS = "cgroup.procs"
_KILLS = ("memory.events", "memory.oom_control")
"""Where the kernel counts the processes that it ended for lack of memory, in version 2 and 1."""


def check_control_groups(folders: Sequence[Path]) -> set[str]:
    """Return what jobs can be held to below these folders; InputError for one that is no use."""
    return set().union(*map(_checked, folders))


def _checked(folder: Path) -> set[str]:
    if not (folder / _MEMBERS).exists():
        hint = "systemd-run --user --scope -p Delegate=yes gives a command one of its own"
        raise InputError("is no control group", file=folder, hint=hint)
    held = _limited(folder)
    if not held:
        rule = "is in a hierarchy that limits neither memory nor CPU time"
        raise InputError(rule, file=folder, hint="In version 1 it must be in that of memory or of cpu")
    try:
        if _is_second_version(folder):
            (folder / "cgroup.subtree_control").write_text("+memory +cpu")
        trial = folder / f"{_PREFIX}-{os.getpid()}-trial"
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        hint = "It must be yours, with memory and cpu among its controllers and no processes of its own"
        raise InputError(f"takes no groups: {error.strerror}", file=folder, hint=hint) from error
    return held


class ControlGroups:
    """The groups of one node's jobs; without folders nobody is held to anything."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = [Path(each) for each in folders]
        self._numbers = itertools.count()
        self._groups: dict[Hashable, list[Path]] = {}
        self._left: list[Path] = []
        """Whose last processes are about to end."""
        self._clear_away()

    def hold(self, holder: Hashable, cpus: float, memory_gb: float) -> None:
        """From now on these limits hold; OSError where the kernel refuses, as it may if more memory is in use."""
        if holder not in self._groups:
            me = os.getpid()
            name = f"{_PREFIX}-{me}-{started(me)}-{next(self._numbers)}"
            self._groups[holder] = groups = []
            for folder in self._folders:
                (folder / name).mkdir()
                groups.append(folder / name)
        refused = None
        for group in self._groups[holder]:
            try:
                _limit(group, cpus, memory_gb)
            except OSError as error:  # the limits of the other groups hold all the same
                refused = error
        if refused is not None:
            raise refused

    def add(self, holder: Hashable, pid: int) -> None:
        """Let the limits hold for a process, and for all that it will start."""
        for group in self._groups.get(holder, ()):
            (group / _MEMBERS).write_text(str(pid))

    def lacked_memory(self, holder: Hashable) -> bool:
        """Whether the kernel has ended a process of the holder because it needed more memory."""
        return any(_killed(group / name) for group in self._groups.get(holder, ()) for name in _KILLS)

    def drop(self, holder: Hashable) -> None:
        """The holder is gone; what it has left behind goes too."""
        self._left += self._groups.pop(holder, [])
        self._left = _removed(self._left)

    def close(self) -> None:
        """Remove all groups, as soon as the last of their processes are gone."""
        for holder in list(self._groups):
            self.drop(holder)
        end = time.monotonic() + EMPTY_S
        while self._left and time.monotonic() < end:
            time.sleep(0.01)
            self._left = _removed(self._left)

    def _clear_away(self) -> None:
        """Remove groups of agents that were killed."""
        for group in itertools.chain.from_iterable(each.glob(f"{_PREFIX}-*-*-*") for each in self._folders):
            pid, start = group.name.split("-")[1:3]
            if pid.isdigit() and start.isdigit() and not is_still(int(pid), int(start)):
                self._left.append(group)
        self._left = _removed(self._left)


def _limit(group: Path, cpus: float, memory_gb: float) -> None:
    memory, quota = int(memory_gb * GB), max(int(cpus * PERIOD_US), LEAST_QUOTA_US)
    if _is_second_version(group.parent):
        (group / "memory.max").write_text(f"{memory}")
        (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        return
    held = _limited(group.parent)
    if MEMORY in held:
        (group / "memory.limit_in_bytes").write_text(f"{memory}")
    if CPU_TIME in held:
        (group / "cpu.cfs_period_us").write_text(f"{PERIOD_US}")
        (group / "cpu.cfs_quota_us").write_text(f"{quota}")


def _limited(folder: Path) -> set[str]:
    """What groups below this one can be held to."""
    if _is_second_version(folder):
        return {MEMORY, CPU_TIME}
    files = {MEMORY: "memory.limit_in_bytes", CPU_TIME: "cpu.cfs_quota_us"}
    return {what for what, file in files.items() if (folder / file).exists()}


def _killed(counts: Path) -> bool:
    with suppress(OSError):  # it is of the other version
        return any(line.split()[0] == "oom_kill" and int(line.split()[1]) for line in counts.read_text().splitlines())
    return False


def _removed(groups: Iterable[Path]) -> list[Path]:
    """Remove groups, and end what is in them; returns those whose processes are not gone yet."""
    left = []
    for group in groups:
        try:
            group.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            _kill_members(group)
            left.append(group)
    return left


def _kill_members(group: Path) -> None:
    with suppress(OSError):  # it is gone by now
        for pid in map(int, (group / _MEMBERS).read_text().split()):
            with suppress(ProcessLookupError):
                if pid:  # the kernel says 0 of those that cannot be seen from here
                    os.kill(pid, signal.SIGKILL)


def _is_second_version(folder: Path) -> bool:
    return (folder / "cgroup.controllers").exists()
