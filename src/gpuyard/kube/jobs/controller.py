"""Decides for gangs while this replica leads: a world for as long as it does, and the controller of every world."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Condition
from typing import Any

from gpuyard.core.errors import GpuyardError
from gpuyard.kube.amounts import made_s
from gpuyard.kube.client.api import Api
from gpuyard.kube.client.following import ListFollower
from gpuyard.kube.events import EventRecorder
from gpuyard.kube.jobs.gang_pods import PodOfNode, read_pod_of_node
from gpuyard.kube.jobs.gang_telling import GangTelling
from gpuyard.kube.jobs.gang_world import GangWorld, SharedBooks
from gpuyard.kube.jobs.inbox import Inbox
from gpuyard.kube.jobs.no_gpus import tell_no_gpus
from gpuyard.kube.jobs.nodes import KubeNode, read_kube_node
from gpuyard.kube.resources.training_job import TRAINING_JOBS, TrainingJob
from gpuyard.kube.resources.training_task import TRAINING_TASKS, TrainingTask
from gpuyard.policies.controller import control
from gpuyard.policies.decide import decide
from gpuyard.policies.policy import Policy
from gpuyard.profiles import Zoo
from gpuyard.runtime.clock import RunClock
from gpuyard.runtime.launching import JobStarts
from gpuyard.runtime.real_cluster import RunRules
from gpuyard.runtime.settling import Patience

JOBS, TASKS = TRAINING_JOBS.folder(), TRAINING_TASKS.folder()
LOOK_S = 0.2
AGAIN_S = 5.0
"""How long to wait after a policy, or something else, has failed."""


class DayClock:
    """Seconds since 1970: those of every machine, so that another replica goes on with the same time."""

    speed = 1.0

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def wait(self, changed: Condition, until: float) -> None:
        """Wait, with the condition held, until it is notified or the clock shows `until`."""
        left = until - self.now()
        if left > 0:
            changed.wait(left)


@dataclass(frozen=True)
class JobSettings:
    """How gangs are scheduled."""

    policy: Policy
    zoo: Zoo
    round_s: float = 60.0
    quotas: Mapping[str, float] = field(default_factory=dict)
    leave_s: float = 30.0
    begin_s: float = 300.0
    tries: int = 3
    save_every_s: float = 1800.0
    beat_s: float = 1.0

    @property
    def rules(self) -> RunRules:
        """As a world of real jobs has them."""
        return RunRules(self.round_s, tuple(self.quotas.items()), serves=True)

    @property
    def patience(self) -> Patience:
        """The same."""
        return Patience(beat_s=self.beat_s, leave_s=self.leave_s, begin_s=self.begin_s, tries=self.tries)


class GangController:
    """Follows what concerns gangs and, while it leads, decides for them in a thread of its own."""

    def __init__(
        self, api: Api, shared: SharedBooks, settings: JobSettings, say: Callable[[str], None],
        clock: RunClock | None = None, *, events: EventRecorder | None = None,
    ) -> None:  # fmt: skip
        self._api, self._shared, self._settings, self._say = api, shared, settings, say
        self._telling = GangTelling(events)
        self._clock = clock or DayClock()
        self._nodes: Inbox[KubeNode] = Inbox(read_kube_node)
        self._pods: Inbox[PodOfNode] = Inbox(read_pod_of_node)
        self._jobs: Inbox[tuple[TrainingJob, float]] = Inbox(
            lambda item: (TRAINING_JOBS.read(item), made_s(item["metadata"]) or 0.0)
        )
        self._tasks: Inbox[TrainingTask] = Inbox(TRAINING_TASKS.read)
        self.ready = False
        """Whether the books know what is promised to gangs: before that nobody who shares is to be bound."""
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def of_nodes(self) -> ListFollower:
        """Told by the list of nodes."""
        return self._nodes

    @property
    def of_pods(self) -> ListFollower:
        """Told by the list of pods."""
        return self._pods

    @property
    def own_lists(self) -> dict[str, ListFollower]:
        """Told by these lists."""
        return {JOBS: self._jobs, TASKS: self._tasks}

    def start(self, leads: Callable[[], bool]) -> None:
        """Begin; `leads` says whether this replica may decide now, and everything has been listed."""
        self._thread = threading.Thread(target=self._run, args=(leads,), name="gangs", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Decide no longer; pods go on."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, leads: Callable[[], bool]) -> None:
        def decides() -> bool:
            return leads() and not self._over.is_set()

        while not self._over.is_set():
            try:
                if decides():
                    self.decide_while(decides)
            except Exception as error:  # whatever it is, pods go on, and another world is made of what is there
                told = str(error) if isinstance(error, GpuyardError) else repr(error)
                self._say(f"gangs wait: {told}")
                self._over.wait(AGAIN_S)
            self._over.wait(LOOK_S)

    def decide_while(self, leads: Callable[[], bool]) -> None:
        """Decide for a world until this replica no longer leads."""
        settings = self._settings
        try:
            world = self.open_world(leads)
            self.ready = True
            if world is not None:
                control(world, partial(decide, settings.policy))
        finally:
            self.ready = self.ready and leads()  # what was promised to gangs is kept while nobody else leads
            for inbox in (self._nodes, self._pods, self._jobs, self._tasks):
                inbox.connect(None)

    def open_world(self, leads: Callable[[], bool]) -> GangWorld | None:
        """The world as it is now; None where no node has a GPU."""
        settings, posts = self._settings, _Posts()
        nodes = self._nodes.connect(posts.of_nodes)
        pods, jobs, tasks = (
            self._pods.connect(posts.of_pods), self._jobs.connect(posts.of_jobs), self._tasks.connect(posts.of_tasks)
        )  # fmt: skip
        if not any(node.yard.gpus for node in nodes):
            tell_no_gpus(self._api, (thing for thing, _ in jobs), self._clock.now())
            return None
        launching = JobStarts(Path(), 1.0, settings.save_every_s)
        world = GangWorld(
            self._api, self._shared, nodes, settings.zoo, self._clock, settings.rules, settings.patience,
            launching=launching, leads=leads, say=self._say,
            telling=self._telling, policy=settings.policy.name,
        )  # fmt: skip
        world.begin(jobs, pods, {f"{task.namespace}/{task.name}": task.status for task in tasks})
        posts.open(world)
        return world


class _Posts:
    """Posts to a world what inboxes hear; what they hear before it is there waits for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._world: GangWorld | None = None
        self._early: list[Callable[[GangWorld, float], Any]] = []

    def open(self, world: GangWorld) -> None:
        """There it is."""
        with self._lock:
            for each in self._early:
                world.post(partial(each, world))
            self._world = world

    def _post(self, event: Callable[[GangWorld, float], Any]) -> None:
        with self._lock:
            if self._world is None:
                self._early.append(event)
            else:
                self._world.post(partial(event, self._world))

    def of_nodes(self, before: KubeNode | None, now: KubeNode | None) -> None:
        if now is not None:
            self._post(lambda world, _at: world.hear_node(now))
        elif before is not None:
            self._post(lambda world, _at: world.forget_node(before.yard.name))

    def of_pods(self, before: PodOfNode | None, now: PodOfNode | None) -> None:
        if before is not None and (now is None or now.uid != before.uid):
            self._post(lambda world, at: world.hear_pod(before, at, gone=True))
        if now is not None:
            self._post(lambda world, at: world.hear_pod(now, at, gone=False))

    def of_jobs(self, before: tuple[TrainingJob, float] | None, now: tuple[TrainingJob, float] | None) -> None:
        if now is not None:
            self._post(lambda world, _at: world.hear_job(*now))
        elif before is not None:
            self._post(lambda world, _at: world.forget_job(before[0]))

    def of_tasks(self, before: TrainingTask | None, now: TrainingTask | None) -> None:
        told = now or before
        if told is not None:
            state = now.status if now is not None else None
            self._post(lambda world, at: world.hear_task(told.namespace, told.name, state, at))
