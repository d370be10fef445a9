"""A run of real jobs from its beginning to its end: the world, its agents, and the controller that decides for it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.policies.controller import control
from gpuyard.policies.decide import decide
from gpuyard.policies.decide_shared import SharedDecider
from gpuyard.policies.multiplex import Multiplex
from gpuyard.policies.multiplex.interference import InterferenceModel
from gpuyard.policies.policy import Policy
from gpuyard.profiles import Zoo
from gpuyard.results import claim
from gpuyard.runtime.addresses import AgentSettings, RunningScheduler, sockets_folder
from gpuyard.runtime.clock import Anchor, MachineClock
from gpuyard.runtime.cpu_sets import cpus_of_nodes, usable_cpus
from gpuyard.runtime.emulated_gpus import emulated_nodes
from gpuyard.runtime.fleet import AgentFleet, LocalFleet
from gpuyard.runtime.launching import JobStarts
from gpuyard.runtime.machine_gpus import numbering
from gpuyard.runtime.new_jobs import NewJob
from gpuyard.runtime.process_ids import started
from gpuyard.runtime.real_cluster import RealCluster, RunRules
from gpuyard.runtime.service import AttachedAgents, SchedulerService, serve
from gpuyard.runtime.settling import Patience
from gpuyard.runtime.shared_company import SharedCompany
from gpuyard.runtime.shared_world import SharedWorld
from gpuyard.runtime.store import RunStore, StoreFullError

GATHER_S = 20.0
"""How long agents are waited for before anything is decided, in seconds of the machine."""
LOOK_S = 0.1


@dataclass(frozen=True)
class RunSettings:
    """How a run is done."""

    state: Path
    """Where it keeps what it must not lose."""
    speed: float = 1.0
    save_every_s: float = 1800.0
    lease_s: float = 120.0
    rules: RunRules = field(default_factory=RunRules)
    patience: Patience = field(default_factory=Patience)
    about: dict[str, str] = field(default_factory=dict)
    control_groups: tuple[str, ...] = ()
    """Below which agents make groups that hold jobs to their memory and CPU time."""
    gpus: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By node, what CUDA calls its real GPUs; none: they are emulated."""


class JobSharing(NamedTuple):
    """How jobs share GPUs: who is put together, and what was measured of that before."""

    name: str
    multiplex: Multiplex
    known: InterferenceModel

    @property
    def tunes(self) -> bool:
        """Whether batch sizes are chosen."""
        return bool(getattr(self.multiplex, "tunes", False))


class Scheduler:
    """Decides for real jobs until all are done, or it is told to end."""

    def __init__(
        self, cluster: Cluster, policy: Policy, zoo: Zoo, settings: RunSettings, fleet: AgentFleet | None = None,
        sharing: JobSharing | None = None,
    ) -> None:  # fmt: skip
        self._policy, self._settings, self._zoo, self._sharing = policy, settings, zoo, sharing
        self._fleet = fleet or LocalFleet()
        settings.state.mkdir(parents=True, exist_ok=True)
        self._claim = claim(settings.state)
        if self._claim is None:
            rule = "belongs to a scheduler that is running"
            raise InputError(rule, file=settings.state, hint="'gpuyard queue' asks it")
        self.store = RunStore(settings.state / "run.db")
        anchor = self.store.meta("anchor")
        self._clock = MachineClock(settings.speed, None if anchor is None else Anchor(**anchor))
        self._agents = AttachedAgents(self.store.meta("agent_numbers"))
        folder = settings.state.resolve()
        real = dict.fromkeys(settings.gpus, numbering())
        surroundings = real or emulated_nodes(cluster, folder, settings.speed)
        launching = JobStarts(folder, settings.speed, settings.save_every_s, surroundings, settings.gpus)
        self.company = None if sharing is None else _company(cluster, zoo, settings.speed, sharing)
        if self.company is not None:
            self.company.recall(self.store.rows("mixes"))
        self.world = RealCluster(
            cluster, self.store, zoo, self._clock, self._agents, launching, settings.rules, settings.patience,
            self.company,
        )  # fmt: skip
        self.cpus = {} if self._fleet.host else cpus_of_nodes(cluster, usable_cpus())
        """Of each node; none on other machines or if this one has fewer than all nodes state: jobs are held to none."""
        service = SchedulerService(self.world, self._agents, settings.about)
        self._server, self.address = serve(service, self._listen(), len(cluster.node_names), settings.state)
        self._fleet.adopt(self.store.meta("agents") or {})
        self._over = threading.Event()
        RunningScheduler(str(settings.state.resolve()), os.getpid(), started(os.getpid()), self.address).announce()

    def _listen(self) -> str:
        if self._fleet.host:
            return f"{self._fleet.host}:0"
        socket = sockets_folder(self._settings.state) / "scheduler"
        socket.unlink(missing_ok=True)
        return f"unix:{socket}"

    def run(self, between: Callable[[], None] = lambda: None) -> int:
        """Decide until there is nothing left to decide; returns how many decisions that took."""
        nodes = self.world.cluster.node_names
        for node in nodes:
            if not self._fleet.lives(node):
                self._start_agent(node)
        self._gather(nodes)
        self.store.set_meta("anchor", vars(self._clock.begin()))
        keeper = threading.Thread(target=self._keep_agents, name="fleet", daemon=True)
        keeper.start()
        try:
            if self._sharing is None or self.company is None:
                return control(self.world, partial(decide, self._policy), between)
            decider = SharedDecider(self._policy, self._sharing.multiplex, self._zoo)
            return control(SharedWorld(self.world, self.company), decider, between)
        finally:
            self._over.set()
            keeper.join()
            self._agents.shut_down()
            self._fleet.stop()
            self._server.stop(0).wait()  # it takes its socket away, and not that of the next scheduler

    def take(self, jobs: Sequence[NewJob]) -> None:
        """Begin with these jobs, or go on with those of an earlier scheduler, if they are the same."""
        given = sha256("\n".join(repr(new.job) for new in jobs).encode()).hexdigest()
        gpus = {node: list(found) for node, found in self._settings.gpus.items()}
        known = self.world.records.values()
        sharing = None if self._sharing is None else self._sharing.name
        if known and self.store.meta("sharing") != sharing:
            raise InputError(
                "holds a run whose jobs share GPUs otherwise", file=self._settings.state,
                hint=f"Say --multiplex {self.store.meta('sharing') or 'none'}, or name another folder",
            )  # fmt: skip
        if known and self.store.meta("gpus") != gpus:
            raise InputError("holds a run on other GPUs", file=self._settings.state, hint="Name another folder")
        if known and self.store.meta("given") != given:
            raise InputError("holds a run of other jobs", file=self._settings.state, hint="Name another folder")
        if self.store.meta("written") and all(each.state.over for each in known):
            raise InputError("holds a run that is over", file=self._settings.state, hint="Name another folder")
        self._fleet.reserve()
        if not known:
            self.store.set_meta("given", given)
            self.store.set_meta("gpus", gpus)
            self.store.set_meta("sharing", sharing)
            self.world.add(jobs)

    def written(self) -> None:
        """The run folder is there; until then the same command writes it, even if all jobs are over."""
        if not self._settings.rules.serves:
            with suppress(StoreFullError):  # the same command writes it once more
                self.store.set_meta("written", True)

    def close(self) -> None:
        """Let go of what the run keeps."""
        self.store.close()
        if self._claim is not None:
            os.close(self._claim)

    def _gather(self, nodes: tuple[str, ...]) -> None:
        """Wait for all agents; a node whose agent does not come is lost."""
        end = time.monotonic() + GATHER_S
        while not set(nodes) <= self.world.attempts.attached and time.monotonic() < end:
            self.world.hear()
            time.sleep(0.01)
        for node in nodes:
            if node not in self.world.attempts.attached:
                self.world.node_lost(node, self.world.now)

    def _keep_agents(self) -> None:
        """Start agents again that died, or that were ended because nothing was heard of them."""
        most_looks = self._settings.patience.silent_s / LOOK_S
        while not self._over.wait(LOOK_S):
            for node in self.world.cluster.node_names:
                if self._agents.looks_since_heard(node) > most_looks:
                    self._fleet.end(node)
                if not self._fleet.lives(node):
                    self._fleet.end(node)  # what it has left behind
                    self.world.ask(lambda now, node=node: self.world.node_lost(node, now)).result()  # type: ignore[misc]
                    if self._over.is_set():
                        return
                    with suppress(OSError, StoreFullError):  # on a full disk it is tried again
                        self._start_agent(node)
                        self._agents.heard(node)

    def _start_agent(self, node: str) -> None:
        state, patience = self._settings.state.resolve(), self._settings.patience
        path = state / "nodes" / node / "agent.json"
        number = self._agents.next_number(node)
        self.store.set_meta("agent_numbers", self._agents.newest)
        settings = AgentSettings(
            node,
            number,
            str(state),
            patience.beat_s,
            self._settings.lease_s,
            self.cpus.get(node, ()),
            self._settings.control_groups,
            tunes=self._sharing is not None and self._sharing.tunes,
        )
        settings.write(path)
        self._fleet.start(node, path)
        self.store.set_meta("agents", self._fleet.handles())


def _company(cluster: Cluster, zoo: Zoo, speed: float, sharing: JobSharing) -> SharedCompany:
    return SharedCompany(
        cluster, zoo, speed, sharing.known, tunes=sharing.tunes, new_round=lambda: token_hex(4)
    )  # fmt: skip
