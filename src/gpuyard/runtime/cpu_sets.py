"""Which CPUs of the machine a job runs on: as many as it was granted, shared only where that is a part of one."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from gpuyard.core.cluster import Cluster

WHOLE = 1000


def usable_cpus() -> list[int]:
    """The CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))


def cpus_of_nodes(cluster: Cluster, usable: Sequence[int]) -> dict[str, list[int]]:
    """The machine's CPUs among nodes that are all on it; none if they state more than it has."""
    found, next_one = {}, 0
    for number, name in enumerate(cluster.node_names):
        count = math.ceil(cluster.kinds[cluster.node_kind[number]].cpus)
        found[name] = list(usable[next_one : next_one + count])
        next_one += count
    return found if next_one <= len(usable) else {}


class CpuSets:
    """Shares out the CPUs of one node in thousandths; without any nobody is held to a set."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self._free = dict.fromkeys(cpus, WHOLE)
        self._given: dict[Hashable, dict[int, int]] = {}

    def give(self, holder: Hashable, amount: float) -> set[int]:
        """Let somebody have so many CPUs, of those that it had as many as possible; none: it may use any."""
        had = self.take_back(holder)
        left = min(round(amount * WHOLE), sum(self._free.values()))
        given: dict[int, int] = {}
        for cpu in sorted(self._free, key=lambda cpu: (self._free[cpu] < min(left, WHOLE), cpu not in had, cpu)):
            part = min(left - sum(given.values()), self._free[cpu])
            if part > 0:
                given[cpu] = part
                self._free[cpu] -= part
        self._given[holder] = given
        return set(given)

    def take_back(self, holder: Hashable) -> dict[int, int]:
        """Somebody needs its CPUs no more; what it had of each."""
        had = self._given.pop(holder, {})
        for cpu, part in had.items():
            self._free[cpu] += part
        return had


@contextmanager
def starting_on(cpus: set[int]) -> Iterator[None]:
    """What this thread starts meanwhile runs on these CPUs, and all that it starts in turn."""
    if not cpus:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def move_session(session: int, cpus: set[int]) -> None:
    """Let all threads of all processes of a session go on on these CPUs."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if os.getsid(int(process.name)) == session:
                for thread in (process / "task").iterdir():
                    os.sched_setaffinity(int(thread.name), cpus)
