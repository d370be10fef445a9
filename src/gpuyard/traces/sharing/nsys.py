"""Kernel traces of Nsight Systems: what the predictor needs of them.

A trace is what `nsys stats -r kernexectrace --format csv` prints, or the database that `nsys export` makes.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from gpuyard.core.arguments import check_number
from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.errors import InputError
from gpuyard.core.sharing import KernelSequence
from gpuyard.traces.sharing.nsys_sqlite import ISSUED, LASTED, NAME, PID, STARTED, is_database, read_database
from gpuyard.traces.source import Source
from gpuyard.traces.table import Table, read_table


@dataclass(frozen=True)
class SequenceProfile:
    """What a trace says of one process."""

    sequence: KernelSequence
    """Mean duration of each kernel of a job."""
    jobs: int
    queue_s: Floats
    """When its queue changed, in seconds from its first launch."""
    queue: Ints
    """And how many kernels were launched and not done from then on."""

    @property
    def longest_queue(self) -> int:
        """The most that were ever queued."""
        return int(self.queue.max())


def read_nsys(path: str | PathLike[str], jobs: int, pid: int | None = None) -> SequenceProfile:
    """Read a trace of a process that ran so many equal jobs; `pid` names it where the trace has several."""
    check_number(jobs, "jobs", least=1, whole=True)
    kernels_of_all = read_database(path) if is_database(path) else read_table(Source.open(path), what="kernels")
    table = _of_process(kernels_of_all, pid)
    order = np.argsort(table.numbers(ISSUED), kind="stable")
    table = table.take(order)
    kernels, rest = divmod(len(table), jobs)
    if rest:
        rule = f"has {len(table)} kernels, which are not {jobs} equal jobs"
        raise InputError(rule, file=table.source, field="jobs", value=jobs)
    names = table.texts(NAME)
    for number, name in enumerate(names):
        if name != names[number % kernels]:
            rule = f"is not the kernel that job 1 has in its place, {names[number % kernels]!r}"
            hint = "Jobs must launch the same kernels; is the number of jobs right?"
            row = int(table.rows[number])
            raise InputError(rule, file=table.source, row=row, field=NAME, value=name, hint=hint)
    lasted = table.numbers(LASTED).reshape(jobs, kernels).mean(axis=0) / 1e9
    sequence = KernelSequence(tuple(lasted.tolist()), source=f"nsys {Path(path).name}")
    issued, ended = table.numbers(ISSUED) / 1e9, (table.numbers(STARTED) + table.numbers(LASTED)) / 1e9
    return SequenceProfile(sequence, jobs, *queue_lengths(issued, ended))


def queue_lengths(issued_s: Floats, ended_s: Floats) -> tuple[Floats, Ints]:
    """Launches add one, ends of kernels take one away; at one instant ends come first."""
    times = np.concatenate([ended_s, issued_s])
    change = np.concatenate([np.full(len(ended_s), -1), np.ones(len(issued_s), np.int64)])
    order = np.argsort(times, kind="stable")
    return times[order] - issued_s.min(), np.cumsum(change[order])


def _of_process(table: Table, pid: int | None) -> Table:
    for name in (NAME, ISSUED, STARTED, LASTED):
        if not table.has(name):
            raise InputError(f"lacks the column {name!r} of a kernexectrace", file=table.source, row=1)
    if not table.has(PID):
        return table
    pids = table.numbers(PID).astype(np.int64)
    known = sorted(set(pids.tolist()))
    if pid is None and len(known) > 1:
        hint = f"Name one with --pid: {', '.join(map(str, known))}"
        raise InputError("has kernels of several processes", file=table.source, field=PID, hint=hint)
    if pid is not None and pid not in known:
        hint = f"Known: {', '.join(map(str, known))}"
        raise InputError("launched no kernel", file=table.source, field="pid", value=pid, hint=hint)
    return table.take(pids == (known[0] if pid is None else pid))
