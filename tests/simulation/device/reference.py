"""Sharing a GPU as slowly and plainly as can be: objects, a heap of events, generators for programs.

Each process is a generator that says what it waits for, as the program that it stands for would: a time, an empty
queue, a short queue, an open gate. Kernels are objects in lists.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import Any

from gpuyard.core.sharing import SharedJob
from gpuyard.policies.timeshare import TimeSharing
from gpuyard.policies.timeshare.launch import Cap, LaunchClaim, Launching, LaunchTerms, ShareAccounts

Wait = tuple[str, float]
KERNEL, PROGRAM, HOLD = 0, 1, 2
END_OF_JOB, AFTER_A_WAIT, BEGIN_OF_JOB, END_OF_CALL = range(4)
"""What programs are about, in the order in which they go on at one instant."""


@dataclass(eq=False)
class Kernel:
    process: Process
    number: int
    left: float
    ticket: int
    rate: float = 0.0
    since: float = 0.0
    version: int = 0


@dataclass(eq=False)
class Process:
    number: int
    job: SharedJob
    terms: LaunchTerms = field(default_factory=LaunchTerms)
    streams: list[list[Kernel]] = field(default_factory=list)
    program: Generator[Wait, None, None] | None = None
    waits_for: Wait = ("nothing", 0.0)
    active: bool = False
    held_until: float = inf
    arrived: float = 0.0
    in_job: bool = False
    ended_kernels: int = 0
    """Of the job that runs."""
    used: float = 0.0
    jobs: int = 0
    over: bool = False
    about: int = BEGIN_OF_JOB
    last_launch: int = -1
    """Of all launch calls, which began last in its job."""

    # What the device asks of a claim.
    ticket: int = 0

    @property
    def priority(self) -> int:
        return self.job.priority

    @property
    def share(self) -> float:
        return self.job.share

    @property
    def demand(self) -> float:
        return self.job.demand

    @property
    def in_flight(self) -> int:
        return sum(map(len, self.streams))

    @property
    def level(self) -> int:
        return -1 if self.terms.level is None else self.terms.level


class Reference:
    def __init__(self, jobs: list[SharedJob], sharing: TimeSharing, launching: Launching, seconds: float) -> None:
        self.sharing, self.launching, self.seconds = sharing, launching, seconds
        self.processes = [Process(number, job) for number, job in enumerate(jobs)]
        for process in self.processes:
            process.streams = [[] for _ in range(process.job.streams)]
        self.events: list[Any] = []
        self.tickets, self.order, self.calls = count(), count(), count()
        self.now = 0.0
        self.done: list[dict[str, Any]] = []
        self.passed: list[tuple[float, int, int]] = []
        """When a launch passed the gate, whose, and the highest level that was active then."""
        self.accounts = ShareAccounts(launching.over_s)

    def run(self) -> list[dict[str, Any]]:
        self.look()
        look_at = self.launching.look_s
        for process in self.processes:
            process.program = self.program(process)
            arrivals = process.job.arrivals_s
            first = (arrivals[0] if arrivals else inf) if arrivals is not None else 0.0
            self.wait(process, ("time", first))
        while not all(process.over for process in self.processes):
            if not self.events or self.events[0][0] > look_at:
                self.now = look_at
                self.look()
                look_at = self.now + self.launching.look_s
                continue
            self.now, kind, _, _, version, what = heapq.heappop(self.events)
            if kind == KERNEL and what.version == version:
                self.end(what)
            elif kind == HOLD and what.held_until == self.now:
                self.let_go(what)
            elif kind == PROGRAM and what.waits_for == ("time", self.now):
                self.resume(what)
        return self.done

    def program(self, process: Process) -> Generator[Wait, None, None]:
        job = process.job
        arrivals = iter(job.arrivals_s) if job.arrivals_s is not None else None
        arrived = next(arrivals, None) if arrivals is not None else 0.0
        ends = set(job.sequence.layer_ends or range(1, len(job.sequence.durations_s) + 1))
        since_sync = 0
        while arrived is not None:
            process.in_job, process.arrived, process.ended_kernels = True, arrived, 0
            process.held_until = inf
            process.about = AFTER_A_WAIT
            row = {"process": process.number, "arrived_s": arrived, "began_s": self.now, "waited_s": 0.0}
            row |= {"preemptions": 0, "syncs": 0}
            for number, duration in enumerate(job.sequence.durations_s):
                if process.level >= 0:
                    process.active = True
                stopped = self.now
                row["preemptions"] += self.must_wait(process) and number > 0
                while self.must_wait(process):
                    if process.in_flight:
                        yield "empty", 0.0
                        yield "time", self.now + job.sync_s
                        since_sync = 0
                    else:
                        yield "gate", 0.0
                row["waited_s"] += self.now - stopped
                self.passed.append((self.now, process.number, self.highest()))
                window = process.terms.cap.window
                if window and since_sync % window == 0 and process.in_flight > window:
                    yield "short", window
                process.about, process.last_launch = END_OF_CALL, next(self.calls)
                yield "time", self.now + job.launch_s
                process.about = AFTER_A_WAIT
                self.line_up(process, number, duration)
                since_sync += 1
                if (process.terms.cap.layers and number + 1 in ends) or 0 < process.terms.cap.sync_every <= since_sync:
                    row["syncs"] += 1
                    if process.in_flight:
                        yield "empty", 0.0
                    yield "time", self.now + job.sync_s
                    since_sync = 0
            process.about = END_OF_JOB
            if process.in_flight:
                yield "empty", 0.0
            yield "time", self.now + job.sync_s
            since_sync = 0
            process.about, process.last_launch = BEGIN_OF_JOB, -1
            self.done.append(row | {"finished_s": self.now})
            process.jobs, process.in_job = process.jobs + 1, False
            begins = self.now + job.thinks_s[(process.jobs - 1) % len(job.thinks_s)]
            if arrivals is not None:
                arrived = next(arrivals, None)
                begins = max(self.now, arrived) if arrived is not None else inf
            elif begins >= self.seconds and process.jobs >= job.least_jobs:
                arrived = None
            else:
                arrived = begins
            process.over = arrived is None
            if process.active and process.terms.hold_s and not process.over:
                process.held_until = self.now + process.terms.hold_s
                heapq.heappush(self.events, (process.held_until, HOLD, (), next(self.order), 0, process))
            elif process.active:
                self.let_go(process)
            if arrived is not None:
                yield "time", begins

    def let_go(self, process: Process) -> None:
        process.active, process.held_until = False, inf
        self.open_gates()

    def highest(self) -> int:
        return max((process.level for process in self.processes if process.active), default=-1)

    def must_wait(self, process: Process) -> bool:
        return 0 <= process.level < self.highest()

    def open_gates(self) -> None:
        for process in self.processes:
            if process.waits_for[0] == "gate" and not self.must_wait(process):
                self.wait(process, ("time", self.now))

    def resume(self, process: Process) -> None:
        assert process.program is not None
        process.waits_for = ("nothing", 0.0)
        wanted = next(process.program, None)
        if wanted is None:
            process.over = True
        else:
            self.wait(process, wanted)

    def wait(self, process: Process, wanted: Wait) -> None:
        process.waits_for = wanted
        if wanted[0] == "time" and wanted[1] < inf:
            place = (process.about, process.last_launch, process.number)
            heapq.heappush(self.events, (wanted[1], PROGRAM, place, next(self.order), 0, process))
        if wanted == ("time", inf):
            process.over = True

    def line_up(self, process: Process, number: int, duration: float) -> None:
        process.streams[number % len(process.streams)].append(Kernel(process, number, duration, next(self.tickets)))
        self.set_rates()

    def heads(self) -> list[Kernel]:
        return [stream[0] for process in self.processes for stream in process.streams if stream]

    def set_rates(self) -> None:
        heads = self.heads()
        if self.sharing.takes_turns:
            first = min(heads, key=lambda kernel: kernel.ticket, default=None)
            rates = {id(kernel): 1.0 if kernel is first else 0.0 for kernel in heads}
        else:
            clients = [process for process in self.processes if process.in_flight]
            given = self.sharing.rates(clients) if clients else []
            of = {process.number: rate for process, rate in zip(clients, given, strict=True)}
            busy = {process.number: sum(map(bool, process.streams)) for process in clients}
            rates = {id(each): of[each.process.number] / busy[each.process.number] for each in heads}
        for kernel in heads:
            rate = rates[id(kernel)]
            if rate != kernel.rate:
                self.progress(kernel)
                kernel.rate, kernel.version = rate, kernel.version + 1
                if rate:
                    self.expect(kernel)

    def expect(self, kernel: Kernel) -> None:
        """Note when it ends; equal times go by process and stream."""
        place = (kernel.process.number, kernel.number % len(kernel.process.streams))
        ends = self.now + kernel.left / kernel.rate
        heapq.heappush(self.events, (ends, KERNEL, place, next(self.order), kernel.version, kernel))

    def progress(self, kernel: Kernel) -> None:
        passed = kernel.rate * (self.now - kernel.since)
        kernel.process.used += passed
        kernel.left, kernel.since = max(kernel.left - passed, 0.0), self.now

    def end(self, kernel: Kernel) -> None:
        self.progress(kernel)
        process = kernel.process
        process.streams[kernel.number % len(process.streams)].pop(0)
        process.ended_kernels += 1
        for head in self.heads():
            if head.rate == 0.0:
                head.since = self.now
        self.set_rates()
        if process.waits_for[0] == "empty" and not process.in_flight:
            self.resume(process)
        elif process.waits_for[0] == "short" and process.in_flight <= process.waits_for[1]:
            self.wait(process, ("time", self.now))

    def used(self) -> list[float]:
        running: dict[int, float] = {}
        for kernel in self.heads():
            passed = kernel.rate * (self.now - kernel.since)
            running[kernel.process.number] = running.get(kernel.process.number, 0.0) + passed
        return [process.used + running.get(process.number, 0.0) for process in self.processes]

    def look(self) -> None:
        total = self.used()
        active, shares = [each.active for each in self.processes], [each.share for each in self.processes]
        owed = self.accounts.settle(total, active, shares)
        claims = [self.claim(process, total[at], owed[at]) for at, process in enumerate(self.processes)]
        for process, terms in zip(self.processes, self.launching.terms(claims), strict=True):
            process.terms = terms
        self.open_gates()

    def claim(self, process: Process, total: float, owed: float) -> LaunchClaim:
        job, kernels = process.job, len(process.job.sequence.durations_s)
        ended = process.ended_kernels if process.in_job else 0
        kernel_s = total / (process.jobs * kernels + ended) if process.jobs else job.sequence.mean_s
        return LaunchClaim(
            job.name, job.priority, job.share, inf if job.slo_s is None else job.slo_s, job.gated,
            Cap(job.sync_every, job.window, job.layers), process.active, process.in_flight, owed,
            self.now - process.arrived if process.in_job else 0.0, (kernels - ended) * kernel_s,
            float(kernels), kernel_s,
        )  # fmt: skip
