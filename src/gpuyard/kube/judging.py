"""GPUs as places for pods, judged by a multiplex policy: the same that decides in a simulation.

A scheduler asks about thousands of GPUs at a time; those that a policy does not tell apart are judged once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from math import isfinite
from typing import NamedTuple

from gpuyard.core.errors import InputError
from gpuyard.core.units import GB_OF_GIB
from gpuyard.kube.books import OpenGpu, PodOnGpu
from gpuyard.kube.objects import GpuPod
from gpuyard.policies.multiplex.interference import InterferenceModel
from gpuyard.policies.multiplex.rule import SharingRule
from gpuyard.policies.multiplex.shared_gpus import GpuFact, SharedRoom, TaskFact
from gpuyard.policies.own_code import own_answer, own_code
from gpuyard.policies.registry import MULTIPLEXERS

MOST_JUDGED = 65536


class _Asked(NamedTuple):
    """All that a policy may go by: a pod, a GPU, and who is there."""

    pod: str
    task: PodOnGpu
    residents: tuple[PodOnGpu, ...]
    node: str
    number: int
    kind: str
    memory_gib: int

    def room(self, known: InterferenceModel) -> SharedRoom:
        """The same as policies see it."""
        gpu = GpuFact(self.node, self.number, self.kind, self.memory_gib * GB_OF_GIB)
        others = tuple(_task(each.usage.model, each) for each in self.residents)
        return SharedRoom(_task(self.pod, self.task), gpu, others, known)


class PodJudge:
    """A policy and what is known of mixes."""

    def __init__(self, rule: SharingRule, known: InterferenceModel) -> None:
        self.rule, self.known = rule, known
        self.score = lru_cache(maxsize=MOST_JUDGED)(self._score)
        self.looks_at_nodes = type(rule).node_score is not SharingRule.node_score

    def places(self, pod: GpuPod) -> PodPlaces:
        """The GPUs of one book as places for this pod."""
        return PodPlaces(self, pod)

    def _score(self, asked: _Asked) -> float | None:
        room = asked.room(self.known)
        return self.answer(lambda: self.rule.score(room) if self.rule.allows(room) else None)

    def answer(self, asked: Callable[[], float | None]) -> float | None:
        """What the policy answers; InputError if it raises, or it is no number."""
        name = type(self.rule).__name__
        with own_code(name, self.rule):
            found = asked()
            number = None if found is None else float(found)
        if number is not None and not isfinite(number):
            raise own_answer(f"its score is {number}, by which nothing can be compared", name, self.rule)
        return number


class PodPlaces:
    """GPUs as places for one pod. Of one book equal company is one object, so that it is quickly told apart."""

    def __init__(self, judge: PodJudge, pod: GpuPod) -> None:
        self.pod, self.rule, self._judge = pod, judge.rule, judge
        self._task = PodOnGpu(pod.usage, pod.request.memory_gib)
        self._scores: dict[object, float | None] = {}
        self._rooms: dict[object, SharedRoom] = {}

    def score(self, where: OpenGpu) -> float | None:
        """How well the pod would be there, lowest is best; None where the policy does not let it go."""
        key = self._key(where)
        if key not in self._scores:
            self._scores[key] = self._judge.score(self._asked(where))
        return self._scores[key]

    def node_score(self, node: Iterable[OpenGpu], best: float) -> float | None:
        """How well it would be on a node, on the best of whose GPUs it would be so well; lowest is best."""
        if not self._judge.looks_at_nodes:
            return best
        rooms = [self._room(each) for each in node if each.gpu.healthy]
        return self._judge.answer(lambda: self.rule.node_score(rooms, best))

    def _room(self, where: OpenGpu) -> SharedRoom:
        key = self._key(where)
        if key not in self._rooms:
            self._rooms[key] = self._asked(where).room(self._judge.known)
        return self._rooms[key]

    def _key(self, where: OpenGpu) -> object:
        apart = (where.node, where.gpu.index) if self.rule.tells_equal_gpus_apart else None
        return id(where.residents), where.gpu.kind, where.gpu.memory_gib, apart

    def _asked(self, where: OpenGpu) -> _Asked:
        gpu, apart = where.gpu, self.rule.tells_equal_gpus_apart
        pod, node, number = (self.pod.full_name, where.node, gpu.index) if apart else ("", "", 0)
        return _Asked(pod, self._task, where.residents, node, number, gpu.kind, gpu.memory_gib)


def sharing_rule(name: str) -> SharingRule:
    """The multiplex policy of this name; InputError if it does not judge GPUs one by one."""
    found = MULTIPLEXERS.find(name)
    if not isinstance(found, SharingRule):
        rule = "weighs all tasks against each other, and a scheduler asks about one pod at a time"
        raise InputError(rule, field="multiplex", value=name, hint="Choose another, such as interference")
    return found


def _task(name: str, who: PodOnGpu) -> TaskFact:
    return TaskFact(name, who.usage, who.memory_gib * GB_OF_GIB)
