"""Synergy's simulator once more: slow, plain Python, written from the description of its rules alone.

No arrays, no shortcuts: every round is simulated, every GPU has a name, and events leave a heap that compares time and
type only, so that events of the same instant and type come out as the original's do.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

ROUND_S = 300
PATIENCE_S = 1000 * 3600
ARRIVAL, LEASE_END, SCHEDULE = 1, 3, 4
GPU, CPU, MEMORY, STORAGE, NETWORK = range(5)
Vector = list[float]


class OriginalExitsError(Exception):
    """The original program ends with an error at this point."""


@dataclass(frozen=True)
class Model:
    """A row of the published table: best demand per GPU, seconds an iteration at the share, what the demand buys."""

    cpus: float
    memory_gb: float
    iteration_s: float
    speedup: float


@dataclass
class Event:
    """Something that happens; only time and type say which of two comes first."""

    time: float
    kind: int
    job: "Job | None" = None

    def __lt__(self, other: "Event") -> bool:
        if self.time == other.time:
            return self.kind < other.kind
        return self.time < other.time


@dataclass(eq=False)
class Server:
    """One server: its free GPUs by id, and what is free beside them."""

    number: int
    gpus: list[int]
    free: Vector
    jobs: "list[Job]" = field(default_factory=list)


@dataclass(eq=False)
class Job:
    """One job of the trace."""

    job_id: int
    arrival: float
    total: float
    gpus: int
    iteration_s: float
    demand: Vector
    speedup_orig: float
    speedup: float
    executed: float = 0.0
    attained_s: float = 0.0
    priority: int = 0
    last_executed: float | None = None
    finish: float | None = None
    held: dict[Server, list[int]] = field(default_factory=dict)
    allocation: Vector = field(default_factory=list)
    before_round: tuple[float, float] = (0.0, 0.0)


def whole_job_demand(model: Model, gpus: int, server: Vector) -> tuple[Vector, float]:
    """Section 2.4: the best demand of all GPUs, clamped to one server, and the speedup it buys."""
    share = [amount / server[GPU] for amount in server]
    vector = [float(gpus), gpus * model.cpus, gpus * model.memory_gb, gpus * 62.5, 0.0]
    speedup, rescale = model.speedup, False
    for r in (CPU, MEMORY, STORAGE):
        if vector[r] > server[r]:
            if gpus > server[GPU]:
                vector[r] = share[r] * gpus
                speedup, rescale = 1.0, False
            else:
                vector[r] = server[r]
                rescale = True
    if rescale:
        ideal, at_share = gpus * model.cpus, share[CPU] * gpus
        if ideal == at_share:
            raise OriginalExitsError("the slope of the speedup divides by zero")
        speedup = 1 + (speedup - 1) / (ideal - at_share) * (vector[CPU] - at_share)
    return vector, speedup


class Original:
    """One run of the original."""

    def __init__(
        self,
        trace: Sequence[tuple[int, str, float, float, int]],
        models: dict[str, Model],
        servers: int,
        server: Vector,
        policy: str,
        mechanism: str,
        *,
        consolidating: bool = False,
        static: bool = False,
    ) -> None:
        self.server_size = server
        self.share = [amount / server[GPU] for amount in server]
        self.totals = [amount * servers for amount in server]
        wide = int(server[GPU])
        self.servers = [Server(s, list(range(s * wide, s * wide + wide)), list(server)) for s in range(servers)]
        self.policy, self.mechanism, self.consolidating = policy, mechanism, consolidating
        self.jobs = [self._job(models[model], *row) for model, row in ((r[1], (r[0], *r[2:])) for r in trace)]
        self.runnable: list[Job] = []
        self.events: list[Event] = []
        for job in self.jobs:
            heapq.heappush(self.events, Event(job.arrival, ARRIVAL, job))
        first = 1 if static else math.ceil(self.jobs[0].arrival / ROUND_S) * ROUND_S
        heapq.heappush(self.events, Event(first, SCHEDULE))
        self.rounds = 0
        self.reclaims = 0

    def _job(self, model: Model, job_id: int, arrival: float, total: float, gpus: int) -> Job:
        demand, speedup = whole_job_demand(model, gpus, self.server_size)
        return Job(job_id, arrival, total, gpus, model.iteration_s, demand, speedup, speedup)

    def run(self) -> dict[int, float | None]:
        """Simulate until all have finished or a round finds nothing to run; returns when each job finished."""
        while self.events and any(job.finish is None for job in self.jobs):
            event = heapq.heappop(self.events)
            if event.kind == ARRIVAL:
                assert event.job is not None
                self.runnable.append(event.job)
            elif event.kind == LEASE_END:
                assert event.job is not None
                self._end_lease(event.job, event.time)
            else:
                self._schedule(event.time)
                if not self.runnable:
                    break
                heapq.heappush(self.events, Event(event.time + ROUND_S, SCHEDULE))
        return {job.job_id: job.finish for job in self.jobs}

    def _end_lease(self, job: Job, now: float) -> None:
        job.last_executed = now
        self._free(job)
        job.held, job.allocation = {}, []
        if job.executed >= job.total:
            job.finish = now
            self.runnable.remove(job)

    # -- section 3: ordering

    def _remaining_s(self, job: Job) -> float:
        left = job.iteration_s * (job.total - job.executed)
        return left if self.mechanism == "proportional" else left / job.speedup

    def _key(self, job: Job, now: float) -> tuple[float, ...]:
        shares = [job.demand[r] / self.totals[r] for r in (GPU, CPU, MEMORY)]
        if self.policy == "fifo":
            return (job.arrival,)
        if self.policy == "srtf":
            key = self._remaining_s(job)
        elif self.policy == "srsf":
            key = job.iteration_s * (job.total - job.executed) * job.gpus
        elif self.policy == "las":
            key = job.attained_s * job.gpus
        elif self.policy == "ftf":
            key = (now - job.arrival + self._remaining_s(job)) / (job.iteration_s * job.total)
        elif self.policy == "drf":
            key = max(shares)
        else:
            rem = self._remaining_s(job)
            key = sum(share * rem for share in shares)
        return (-job.priority, key, job.arrival)

    def _schedule(self, now: float) -> None:
        self.rounds += 1
        keys = {id(job): self._key(job, now) for job in self.runnable}
        self.runnable.sort(key=lambda job: keys[id(job)])
        for server in self.servers:
            server.jobs = []
        for job in self.runnable:
            job.speedup = job.speedup_orig
        free = sum(len(server.gpus) for server in self.servers)
        admitted = []
        for job in self.runnable:
            if job.gpus <= free:
                admitted.append(job)
                free -= job.gpus
            since = job.arrival if job.last_executed is None else job.last_executed
            if now - since > PATIENCE_S:
                job.priority = 1
        if self.policy == "las":
            candidates = admitted
            if self.mechanism == "tune":
                candidates = sorted(admitted, key=lambda job: -job.gpus)
        else:
            candidates = list(self.runnable)
        for job in candidates:
            if job.gpus <= sum(len(server.gpus) for server in self.servers) and self._allocate(job):
                heapq.heappush(self.events, Event(now + ROUND_S, LEASE_END, job))

    # -- section 4: allocation

    def _allocate(self, job: Job) -> bool:
        if self.mechanism == "proportional":
            return self._place(job, [amount * job.gpus for amount in self.share])
        if self.mechanism == "greedy":
            return self._place(job, job.demand)
        return self._tune(job)

    def _tune(self, job: Job) -> bool:
        vector = job.demand
        if self._place(job, vector):
            return True
        if self._exceeds_share(job):
            vector = [job.gpus, *(self.share[r] * job.gpus for r in (CPU, MEMORY, STORAGE)), 0.0]
            job.speedup = 1.0
            if self._place(job, vector):
                return True
        self.reclaims += 1
        for server, gpus in self._targets(job.gpus):
            self._reclaim(server, [amount * gpus / job.gpus for amount in vector])
        if not self._place(job, vector):
            raise OriginalExitsError("tune could not place an admitted job")
        return True

    def _exceeds_share(self, job: Job) -> bool:
        return any(have > share * job.gpus for have, share in zip(job.demand, self.share, strict=True))

    def _targets(self, gpus: int) -> list[tuple[Server, int]]:
        if gpus > 1:
            for server in self.servers:
                if len(server.gpus) >= gpus:
                    return [(server, gpus)]
        targets = []
        for server in sorted(self.servers, key=lambda server: (len(server.gpus), server.number)):
            part = min(len(server.gpus), gpus)
            if part:
                targets.append((server, part))
                gpus -= part
        return targets

    def _reclaim(self, server: Server, wanted: Vector) -> None:
        free = [float(len(server.gpus)), *server.free[1:]]
        need = [max(0.0, want - have) for want, have in zip(wanted, free, strict=True)]
        if not any(need):
            return
        victims = []
        server.jobs.sort(
            key=lambda job: (len(job.held), -job.allocation[CPU] / job.gpus, -job.allocation[MEMORY] / job.gpus)
        )
        for job in server.jobs:
            here = len(job.held[server])
            part = [amount * here / job.gpus for amount in job.allocation]
            excess = [max(0.0, have - share * here) for have, share in zip(part, self.share, strict=True)]
            rest = [max(0.0, want - spare) for want, spare in zip(need, excess, strict=True)]
            if not any(rest):
                victims.append(job)
                break
            if not all(rest):
                victims.append(job)
                need = rest
        for job in victims:
            self._cut(job)

    def _cut(self, job: Job) -> None:
        held = job.held
        self._free(job)
        job.executed, job.attained_s = job.before_round
        vector = job.demand
        if self._exceeds_share(job):
            vector = [job.gpus, *(self.share[r] * job.gpus for r in (CPU, MEMORY, STORAGE)), 0.0]
            job.speedup = 1.0
        self._take(job, vector, held, proportional=True)

    # -- section 4.1: placement

    def _place(self, job: Job, vector: Vector) -> bool:
        found = self._consolidated(job.gpus, vector) if self.consolidating else self._first_fit(job.gpus, vector)
        if found is None:
            return False
        self._take(job, vector, found, proportional=self.mechanism == "proportional")
        for server in found:
            server.jobs.append(job)
        return True

    def _fits(self, server: Server, need: Vector, holds: Vector) -> bool:
        free = [float(len(server.gpus)), *server.free[1:]]
        return all(have - hold >= want for have, hold, want in zip(free, holds, need, strict=True))

    def _first_fit(self, gpus: int, vector: Vector) -> dict[Server, list[int]] | None:
        need = [amount / gpus for amount in vector]
        holds: dict[Server, Vector] = {server: [0.0] * 5 for server in self.servers}
        found: dict[Server, list[int]] = {}
        taken = 0
        for server in self.servers:
            for gpu in sorted(server.gpus):
                if taken < gpus and self._fits(server, need, holds[server]):
                    found.setdefault(server, []).append(gpu)
                    holds[server] = [hold + one for hold, one in zip(holds[server], need, strict=True)]
                    taken += 1
        return found if taken == gpus else None

    def _consolidated(self, gpus: int, vector: Vector) -> dict[Server, list[int]] | None:
        if gpus > 1:
            candidates = [server for server in self.servers if server.gpus and self._fits(server, vector, [0.0] * 5)]
            if candidates:
                chosen = min(candidates, key=lambda server: (len(server.gpus), min(server.gpus)))
                return {chosen: sorted(chosen.gpus)[:gpus]}
        need = [amount / gpus for amount in vector]
        left = {server: sorted(server.gpus) for server in self.servers}
        holds: dict[Server, Vector] = {server: [0.0] * 5 for server in self.servers}
        queue = [(len(server.gpus), server.number) for server in self.servers if server.gpus]
        heapq.heapify(queue)
        found: dict[Server, list[int]] = {}
        taken = 0
        while queue and taken < gpus:
            server = self.servers[heapq.heappop(queue)[1]]
            if not self._fits(server, need, holds[server]):
                continue
            found.setdefault(server, []).append(left[server].pop())
            holds[server] = [hold + one for hold, one in zip(holds[server], need, strict=True)]
            taken += 1
            if left[server]:
                heapq.heappush(queue, (len(left[server]), server.number))
        return found if taken == gpus else None

    def _take(self, job: Job, vector: Vector, gpus: dict[Server, list[int]], *, proportional: bool) -> None:
        job.held, job.allocation = gpus, list(vector)
        for server, ids in gpus.items():
            server.gpus = [gpu for gpu in server.gpus if gpu not in ids]
            for r in (CPU, MEMORY, STORAGE):
                server.free[r] -= vector[r] * len(ids) / job.gpus
        seconds = job.iteration_s if proportional else job.iteration_s / job.speedup
        job.before_round = (job.executed, job.attained_s)
        job.executed = min(job.executed + math.floor(ROUND_S / seconds), job.total)
        job.attained_s += ROUND_S

    def _free(self, job: Job) -> None:
        for server, ids in job.held.items():
            server.gpus = server.gpus + ids
            for r in (CPU, MEMORY, STORAGE):
                server.free[r] += job.allocation[r] * len(ids) / job.gpus
