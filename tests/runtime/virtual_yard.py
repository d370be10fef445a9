"""A world of real jobs without processes: a clock that jumps, and agents that do in an instant what others do in time.

Everything between is the real thing: the world, its ledgers, its store, the policies.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from threading import Condition

from gpuyard.client.control import NO_LIMIT, UNKNOWN
from gpuyard.client.session import RankName
from gpuyard.core.cluster import Cluster
from gpuyard.core.workload import Workload
from gpuyard.policies.controller import control
from gpuyard.policies.decide import Decision, decide
from gpuyard.policies.decide_shared import SharedDecider
from gpuyard.policies.multiplex.interference import InterferenceModel
from gpuyard.policies.policy import Policy
from gpuyard.policies.registry import MULTIPLEXERS
from gpuyard.policies.snapshot import Snapshot
from gpuyard.profiles import Zoo
from gpuyard.runtime.commands import AcknowledgeExit, AgentCommand, ChangeLease, KillRanks, LeaseTerms, StartRanks
from gpuyard.runtime.launching import JobStarts
from gpuyard.runtime.new_jobs import NewJob
from gpuyard.runtime.real_cluster import RealCluster, RunRules
from gpuyard.runtime.reports import RankExit, RankProgress
from gpuyard.runtime.settling import Patience
from gpuyard.runtime.shared_company import SharedCompany
from gpuyard.runtime.shared_world import SharedWorld
from gpuyard.runtime.store import RunStore


class VirtualClock:
    """Shows the time of the next event as soon as somebody waits."""

    def __init__(self, speed: float = 1.0) -> None:
        self.speed, self._now = speed, 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def now(self) -> float:
        return self._now

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(when, self._now), next(self._numbers), what))

    def pass_by(self, seconds: float) -> None:
        """Time passes while nobody waits."""
        self._now += seconds

    def wait(self, _changed: Condition, until: float) -> None:
        if self._events and self._events[0][0] <= until:
            when, _, what = heapq.heappop(self._events)
            self._now = max(self._now, when)
            what()
        else:
            self._now = max(self._now, until)


class DeathError(Exception):
    """The scheduler is killed."""


@dataclass
class VirtualRank:
    """A process that trains at the speed of its lease."""

    name: RankName
    node: str
    lease: LeaseTerms
    total: float
    step: float
    since: float = 0.0
    working: bool = False
    leaving: bool = False
    loaded: int = 0
    generation: int = 0
    measured_from: tuple[float, float] = (0.0, 0.0)
    """The step and the time from which it measures under the terms of its lease."""

    @property
    def phase(self) -> str:
        """What it is about."""
        return "works" if self.working else "leaves" if self.leaving else "starts"


@dataclass
class VirtualAgents:
    """All agents of a cluster; starting and saving take the time that they are told."""

    clock: VirtualClock
    start_s: float = 0.0
    save_s: float = 0.0
    start_cost: Callable[[], float] | None = None
    """What each start takes, if not `start_s`."""
    save_every_s: float = 0.0
    decides_s: float = 0.0
    """How long the scheduler takes from the snapshot to the decision."""
    saved: dict[str, int] = field(default_factory=dict)
    ranks: dict[RankName, VirtualRank] = field(default_factory=dict)
    starts: list[StartRanks] = field(default_factory=list)
    exits: dict[int, tuple[str, RankExit]] = field(default_factory=dict)
    """That no scheduler has said it has kept."""
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    crashes: dict[str, str] = field(default_factory=dict)
    """Jobs that end at once, with their last words."""
    hung: set[str] = field(default_factory=set)
    """Jobs that are started and never come to a step."""
    forgetful: set[str] = field(default_factory=set)
    """Jobs that never save."""
    deaf: set[str] = field(default_factory=set)
    """Jobs that do not leave when they are told to."""
    gone: set[str] = field(default_factory=set)
    slowness: Callable[[RankName], float] = lambda _name: 1.0
    """How much longer the steps of a process take than its lease says."""
    own: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    """By job and rank, the steps after which processes have saved that all do so, when their lease says so."""
    world: RealCluster | None = None

    def tell(self, node: str, command: AgentCommand) -> None:
        if node in self.gone:
            return
        if isinstance(command, AcknowledgeExit):
            self.exits.pop(command.number, None)
            return
        if isinstance(command, StartRanks):
            self.starts.append(command)
            for number in command.ranks:
                name = RankName(command.job, command.attempt, number)
                step = self.saved.get(command.job, 0)
                total = inf if command.total_steps == UNKNOWN else command.total_steps
                self.ranks[name] = VirtualRank(name, node, command.lease, total, step, loaded=step)
                took_s = self.start_s if self.start_cost is None else self.start_cost()
                self.clock.at(self.clock.now() + took_s, partial(self._work, name))
            return
        ranks = [
            rank
            for rank in self.ranks.values()
            if (rank.name.job, rank.name.attempt, rank.node) == (command.job, command.attempt, node)
        ]
        for rank in ranks:
            if isinstance(command, ChangeLease):
                self._change(rank, command.lease)
            else:
                assert isinstance(command, KillRanks)
                self._exit(rank, code=-9)

    def kill(self, name: RankName) -> None:
        """As kill -9 does."""
        self._exit(self.ranks[name], code=-9, tail="killed")

    def end_well(self, name: RankName) -> None:
        """A process ends with 0, and is not done."""
        self._advance(self.ranks[name])
        self._exit(self.ranks[name])

    def let_go(self, name: RankName) -> None:
        """A process saves and leaves, and nobody has told it to."""
        self._advance(self.ranks[name])
        self._leave(self.ranks[name], finished=False)

    def lose(self, node: str, back_after_s: float) -> None:
        """A node dies, with all its processes, and is back after a while, empty."""
        if node in self.gone:
            return
        self.gone.add(node)
        for rank in [rank for rank in self.ranks.values() if rank.node == node]:
            del self.ranks[rank.name]
        world = self.world
        assert world is not None
        world.post(partial(world.node_lost, node))
        self.clock.at(self.clock.now() + back_after_s, lambda: self._back(node))

    def _back(self, node: str) -> None:
        self.gone.discard(node)
        self.attach(node)

    def attach(self, node: str) -> None:
        """Say what is there, as an agent does that finds a scheduler."""
        world = self.world
        assert world is not None
        running = [self._told(rank) for rank in self.ranks.values() if rank.node == node]
        exits = [gone for where, gone in self.exits.values() if where == node]
        world.post(partial(world.attempts.joined, node, running, exits))

    def _work(self, name: RankName) -> None:
        if name not in self.ranks or name.job in self.hung:
            return
        rank = self.ranks[name]
        if name.job in self.crashes:
            self._exit(rank, code=1, tail=self.crashes[name.job])
            return
        if rank.lease.stop:
            self._leave(rank, finished=False)
            return
        rank.working, rank.since = True, self.clock.now()
        rank.measured_from = rank.step, rank.since
        self._report(rank)
        self._plan(rank)
        if (name.job, name.rank) in self.own:
            self.own[name.job, name.rank] &= set(range(int(rank.step) + 1))
        elif self.save_every_s and name.rank == 0:
            self.clock.at(self.clock.now() + self.save_every_s, partial(self._save, rank))

    def _save(self, rank: VirtualRank) -> None:
        if self.ranks.get(rank.name) is rank and rank.working:
            self._advance(rank)
            self.saved[rank.name.job] = int(rank.step + 1e-9)
            self._report(rank)
            self.clock.at(self.clock.now() + self.save_every_s, partial(self._save, rank))

    def _save_own(self, rank: VirtualRank, step: int) -> None:
        if self.ranks.get(rank.name) is rank and rank.working:
            self.own[rank.name.job, rank.name.rank].add(step)
            self.saved[rank.name.job] = self.by_all(rank.name.job)
            self._report(rank)

    def by_all(self, job: str) -> int:
        """The newest step after which all processes of a job have saved."""
        return max(set.intersection(*(steps for (name, _), steps in self.own.items() if name == job)), default=0)

    def _step_s(self, rank: VirtualRank) -> float:
        return rank.lease.step_s * self.slowness(rank.name)

    def _advance(self, rank: VirtualRank) -> None:
        now = self.clock.now()
        if rank.working:
            done = rank.step + (now - rank.since) / self._step_s(rank)
            rank.step = max(rank.step, min(done, self._until(rank)))
        rank.since = now

    def _until(self, rank: VirtualRank) -> float:
        return rank.total if rank.lease.limit == NO_LIMIT else min(rank.lease.limit, rank.total)

    def _plan(self, rank: VirtualRank) -> None:
        """When this process comes to the end of what it may do."""
        rank.generation += 1
        wanted = rank.generation
        when = self.clock.now() + max(self._until(rank) - rank.step, 0.0) * self._step_s(rank)
        self.clock.at(when, lambda: self._arrive(rank, wanted))

    def _arrive(self, rank: VirtualRank, generation: int) -> None:
        if rank.generation != generation or self.ranks.get(rank.name) is not rank or not rank.working:
            return
        self._advance(rank)
        rank.step = max(rank.step, self._until(rank))
        if rank.step >= rank.total:
            self._leave(rank, finished=True)
        elif rank.lease.stop:
            self._leave(rank, finished=False)
        else:
            self._report(rank)

    def _change(self, rank: VirtualRank, lease: LeaseTerms) -> None:
        if rank.name.job in self.deaf and lease.stop:
            return
        if not rank.working:
            rank.lease = lease
            if lease.stop and not rank.leaving:
                self._exit(rank, code=-15)
            return
        self._advance(rank)
        if (lease.terms, lease.step_s) != (rank.lease.terms, rank.lease.step_s):
            rank.measured_from = rank.step, self.clock.now()
        if lease.save_at > rank.lease.save_at and (rank.name.job, rank.name.rank) in self.own:
            assert rank.step <= lease.save_at + 1e-9, f"{rank.name} hears too late where to save"
            wait_s = max(lease.save_at - rank.step, 0.0) * self._step_s(rank)
            self.clock.at(self.clock.now() + wait_s, partial(self._save_own, rank, lease.save_at))
        rank.lease = lease
        if lease.stop and (lease.limit == NO_LIMIT or rank.step >= lease.limit):
            self._leave(rank, finished=False)
        else:
            self._plan(rank)

    def _leave(self, rank: VirtualRank, *, finished: bool) -> None:
        rank.working, rank.leaving = False, True
        rank.step = float(int(rank.step + 1e-9))
        if (rank.name.job, rank.name.rank) in self.own:
            self.own[rank.name.job, rank.name.rank].add(int(rank.step))
            self.saved[rank.name.job] = self.by_all(rank.name.job)
        elif rank.name.rank == 0 and rank.name.job not in self.forgetful:
            self.saved[rank.name.job] = int(rank.step)
        self.clock.at(
            self.clock.now() + self.save_s, lambda: self._exit(rank, left=True, finished=finished, leave_s=self.save_s)
        )

    def _exit(self, rank: VirtualRank, **how: object) -> None:
        if self.ranks.get(rank.name) is not rank:
            return
        del self.ranks[rank.name]
        gone = RankExit(self._told(rank), number=next(self.numbers), **how)  # type: ignore[arg-type]
        self.exits[gone.number] = rank.node, gone
        if self.world is not None:
            self.world.post(partial(self.world.attempts.told_exit, rank.node, gone))

    def report_all(self) -> None:
        for rank in list(self.ranks.values()):
            if rank.working:
                self._advance(rank)
                self._report(rank)

    def _report(self, rank: VirtualRank) -> None:
        if self.world is not None:
            self.world.post(partial(self.world.attempts.progressed, self._told(rank)))

    def _told(self, rank: VirtualRank) -> RankProgress:
        saved = self.saved.get(rank.name.job, 0)
        works = rank.working or rank.leaving
        steps, seconds = rank.step - rank.measured_from[0], rank.since - rank.measured_from[1]
        whole = int(steps + 1e-9)
        return RankProgress(
            rank.name, int(rank.step + 1e-9), saved, working=works, loaded_step=rank.loaded, terms=rank.lease.terms,
            measured_steps=whole, measured_s=seconds * whole / steps / self.clock.speed if whole else 0.0,
        )  # fmt: skip


@dataclass
class VirtualYard:
    """A whole run: give it a workload and a policy, and let it run."""

    cluster: Cluster
    zoo: Zoo
    folder: Path
    rules: RunRules = field(default_factory=RunRules)
    start_s: float = 0.0
    save_s: float = 0.0
    save_every_s: float = 1e9
    """For processes that save when their lease says so."""
    patience: Patience = field(default_factory=lambda: Patience(beat_s=10.0, leave_s=1e6))
    clock: VirtualClock = field(default_factory=VirtualClock)
    agents: VirtualAgents = None  # type: ignore[assignment]
    multiplex: str = ""
    """The policy by which jobs share GPUs, if they do."""
    known: InterferenceModel = field(default_factory=InterferenceModel)
    tell_every_s: float | None = None
    """How often processes tell how far they are; once a round."""

    def __post_init__(self) -> None:
        self.agents = self.agents or VirtualAgents(self.clock, self.start_s, self.save_s)
        self.store = RunStore(self.folder / "run.db")
        self.company = self._company() if self.multiplex else None
        self.world = RealCluster(
            self.cluster, self.store, self.zoo, self.clock, self.agents, JobStarts(self.folder, 1.0, self.save_every_s),
            self.rules, self.patience, self.company,
        )  # fmt: skip
        self.agents.world = self.world
        for node in self.cluster.node_names:
            self.agents.attach(node)
        self.seen: list[tuple[Snapshot, Decision]] = []

    def _company(self) -> SharedCompany:
        tunes = bool(getattr(MULTIPLEXERS.find(self.multiplex), "tunes", False))
        rounds = itertools.count()
        name = f"{self.folder.name}-{self.clock.now()}"
        company = SharedCompany(
            self.cluster, self.zoo, self.clock.speed, self.known, tunes=tunes,
            new_round=lambda: f"{name}-{next(rounds)}",
        )  # fmt: skip
        company.recall(self.store.rows("mixes"))
        return company

    def run_shared(self, workload: Workload, policy: Policy) -> None:
        """Until all is done, with jobs that share GPUs."""
        assert self.company is not None
        if not self.world.records:
            self.world.add(NewJob(workload.job(number)) for number in range(len(workload)))
        self.world.hear()
        self._tell_by_rounds()
        shared = SharedWorld(self.world, self.company)
        control(shared, SharedDecider(policy, MULTIPLEXERS.find(self.multiplex), self.zoo))

    def run(self, workload: Workload, policy: Policy, *, every_round: bool = False) -> None:
        """Until all is done; decide in every round, or only where the decision may be another one."""
        if not self.world.records:
            self.world.add(NewJob(workload.job(number)) for number in range(len(workload)))
        self.world.hear()

        def deciding(snapshot: Snapshot) -> Decision:
            self.clock.pass_by(self.agents.decides_s)
            found = decide(policy, snapshot)
            self.seen.append((snapshot, found))
            return found

        self._tell_by_rounds()
        control(_Reporting(self.world, self.agents, every_round=every_round), deciding)

    def _tell_by_rounds(self) -> None:
        """Processes tell how far they are once a round."""
        self.agents.report_all()
        self.clock.at(self.clock.now() + (self.tell_every_s or self.rules.round_s), self._tell_by_rounds)

    def die(self) -> None:
        """What the scheduler was about to do is not done; agents and processes go on."""
        self.agents.world = None
        raise DeathError

    def run_until_death(self, workload: Workload, policy: Policy) -> bool:
        """Whether it ended by itself."""
        try:
            (self.run_shared if self.multiplex else self.run)(workload, policy)
        except DeathError:
            self.store.close()
            return False
        return True

    def successor(self) -> VirtualYard:
        """Another scheduler with the same state and the same agents."""
        self.store.close()
        return VirtualYard(
            self.cluster, self.zoo, self.folder, self.rules, save_every_s=self.save_every_s, patience=self.patience,
            clock=self.clock, agents=self.agents, multiplex=self.multiplex, known=self.known,
            tell_every_s=self.tell_every_s,
        )  # fmt: skip


class _Reporting:
    """The world, whose processes tell how far they are just before anybody decides."""

    def __init__(self, world: RealCluster, agents: VirtualAgents, *, every_round: bool) -> None:
        self._world, self._agents, self._every_round = world, agents, every_round
        self.apply = world.apply

    @property
    def now(self) -> float:
        return self._world.now

    def wait(self, last: Decision | None) -> bool:
        return self._world.wait(None if self._every_round else last)

    def snapshot(self) -> Snapshot:
        self._agents.report_all()
        self._world.hear()
        return self._world.snapshot()
