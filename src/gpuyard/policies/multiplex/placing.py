"""Places tasks one after the other, in order, where a rule says that they are best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple, Protocol

from gpuyard.policies.multiplex.interface import MultiplexPlan, Sharing
from gpuyard.policies.multiplex.shared_gpus import GpuFact, GpuPlace, SharedGpus, SharedRoom, TaskFact

SLACK_GB = 1e-9


class Judge(Protocol):
    """What is asked about one GPU at a time: see SharingRule."""

    @property
    def refuses_because(self) -> str:
        """Why a task waits although its memory would fit."""

    @property
    def tells_equal_gpus_apart(self) -> bool:
        """Whether GPUs of one type with the same company may be judged differently."""

    def allows(self, room: SharedRoom) -> bool:
        """Whether the task may go there."""

    def score(self, room: SharedRoom) -> float:
        """How well it would be there."""

    def node_score(self, node: Sequence[SharedRoom], best: float) -> float:
        """How well it would be on a node."""


class _Lack(NamedTuple):
    """Why a task finds no place: a reason's name, and words."""

    reason: str
    told: str


def place_in_order(judge: Judge, gpus: SharedGpus) -> MultiplexPlan:
    """Give each task a place: who runs stays; who is ahead of others may take theirs if there is no other room."""
    return _Placing(judge, gpus).plan()


class _Placing:
    """Who is where while a plan is being made."""

    def __init__(self, judge: Judge, gpus: SharedGpus) -> None:
        self._judge, self._given = judge, gpus
        self._rank = {task.name: number for number, task in enumerate(gpus.tasks)}
        self._on: dict[GpuPlace, list[TaskFact]] = {gpu.place: [] for gpu in gpus.gpus if gpu.up}
        self._nodes = {node: list(group) for node, group in groupby(gpus.gpus, key=lambda gpu: gpu.node)}
        self._settled: dict[int | str, GpuPlace] = {}
        self._used: dict[str, int] = {}
        self._judged: dict[object, float | None] = {}
        self._hopeless: dict[object, _Lack] = {}
        for task in gpus.tasks:
            if task.place in self._on:
                self._on[task.place].append(task)

    def plan(self) -> MultiplexPlan:
        waits: dict[int | str, _Lack] = {}
        for task in self._given.tasks:
            lack = self._serve(task)
            if lack is not None:
                waits[task.name] = lack
        memory = {task.name: task.gpu_memory_gb for task in self._given.tasks}
        places = {name: Sharing(*place, memory[name]) for name, place in self._settled.items()}
        reasons = {name: lack.reason for name, lack in waits.items()}
        return MultiplexPlan(places, reasons, {name: lack.told for name, lack in waits.items()})

    def _serve(self, task: TaskFact) -> _Lack | None:
        """Find the task a place; returns why there is none."""
        at = next((place for place in (task.place,) if place in self._on and task in self._on[place]), None)
        limit = self._given.quotas.get(task.tenant)
        if limit is not None and self._used.get(task.tenant, 0) + 1 > limit:
            if at is not None:
                self._leave(at, task)
            return _Lack("quota", f"its tenant {task.tenant} may use {limit:g} GPUs at a time")
        if at is None:
            found = self._find(task)
            if isinstance(found, _Lack):
                return found
            at = found
            self._on[at].append(task)
        self._settled[task.name] = at
        self._used[task.tenant] = self._used.get(task.tenant, 0) + 1
        return None

    def _leave(self, at: GpuPlace, task: TaskFact) -> None:
        self._on[at].remove(task)
        self._hopeless.clear()

    def _find(self, task: TaskFact) -> GpuPlace | _Lack:
        """A place beside all who are there, or else one from which those behind in the order are sent away."""
        kind = (task.usage, task.gpu_memory_gb, task.gpu_types, tuple(task.speeds.items()))
        if kind in self._hopeless:  # for one like this, ahead of it, there was nothing
            return self._hopeless[kind]
        rooms = [room for gpu in self._usable(task) if (room := self._room(task, gpu, self._on[gpu.place]))]
        best = self._best(rooms)
        if best is None:
            best = self._best(room for gpu in self._usable(task) if (room := self._emptied(task, gpu)))
            if best is None:
                self._hopeless[kind] = self._lack(task)
                return self._hopeless[kind]
            for other in [each for each in self._on[best.gpu.place] if each not in best.others]:
                self._leave(best.gpu.place, other)
        return best.gpu.place

    def _usable(self, task: TaskFact) -> list[GpuFact]:
        return [gpu for gpu in self._given.gpus if gpu.up and task.may_use(gpu.gpu_type)]

    def _room(self, task: TaskFact, gpu: GpuFact, others: Iterable[TaskFact]) -> SharedRoom | None:
        """The GPU as a place for the task, if its memory is free and the rule has nothing against it."""
        room = SharedRoom(task, gpu, tuple(others), self._given.known)
        fits = room.free_gb + SLACK_GB >= task.gpu_memory_gb
        return room if fits and self._score(room) is not None else None

    def _emptied(self, task: TaskFact, gpu: GpuFact) -> SharedRoom | None:
        """The same after those behind in the order have left, the last first, as few of them as will do."""
        others = self._on[gpu.place]
        behind = [each for each in others if self._rank[each.name] > self._rank[task.name]]
        for last in sorted(behind, key=lambda each: -self._rank[each.name]):
            others = [each for each in others if each is not last]
            room = self._room(task, gpu, others)
            if room is not None:
                return room
        return None

    def _best(self, rooms: Iterable[SharedRoom]) -> SharedRoom | None:
        """The best place on the best node; the first of equals."""
        best: tuple[float, SharedRoom] | None = None
        for node, group in groupby(rooms, key=lambda room: room.gpu.node):
            here = list(group)
            scores = [score for room in here if (score := self._score(room)) is not None]
            of_node = self._judge.node_score(self._all_of(node, here[0].task), min(scores))
            if best is None or of_node < best[0]:
                best = (of_node, here[scores.index(min(scores))])
        return None if best is None else best[1]

    def _all_of(self, node: str, task: TaskFact) -> list[SharedRoom]:
        gpus = (gpu for gpu in self._nodes[node] if gpu.up)
        return [SharedRoom(task, gpu, tuple(self._on[gpu.place]), self._given.known) for gpu in gpus]

    def _score(self, room: SharedRoom) -> float | None:
        """How well the task would be there; None where it may not go. Equal places are judged once."""
        task, gpu = room.task, room.gpu
        company = sorted((each.usage, each.gpu_memory_gb, tuple(each.speeds.items())) for each in room.others)
        key: object = (
            task.usage, task.gpu_memory_gb, tuple(task.speeds.items()), gpu.gpu_type, gpu.memory_gb, gpu.tuning,
            tuple(company), (task.name, gpu.place) if self._judge.tells_equal_gpus_apart else None,
        )  # fmt: skip
        if key not in self._judged:
            self._judged[key] = self._judge.score(room) if self._judge.allows(room) else None
        return self._judged[key]

    def _lack(self, task: TaskFact) -> _Lack:
        fit = [gpu for gpu in self._given.gpus if task.may_use(gpu.gpu_type)]
        free = [SharedRoom(task, gpu, tuple(self._on[gpu.place]), self._given.known).free_gb for gpu in fit if gpu.up]
        if len(free) < len(fit) and max(free, default=0.0) < task.gpu_memory_gb:
            return _Lack("nodes", f"{len(fit) - len(free)} of the {len(fit)} GPUs that it may use are out of service")
        if not free:
            return _Lack("gpus", "there is no GPU of a type that it may use")
        if max(free) + SLACK_GB >= task.gpu_memory_gb:
            return _Lack("gpus", f"its memory would fit, but {self._judge.refuses_because}")
        needs = f"it needs {task.gpu_memory_gb:g} GB of GPU memory; {max(free):g} GB is the most that is free on a GPU"
        return _Lack("fragments" if sum(free) >= task.gpu_memory_gb else "gpus", needs)
