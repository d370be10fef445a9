"""GPUs as places for pods, judged by a multiplex policy: the same that decides in a simulation.

A scheduler asks about thousands of GPUs at a time; those that a policy does not tell apart are judged once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from math import isfinite, nan
from typing import NamedTuple

from gpuyard.core.errors import InputError
from gpuyard.core.units import GB_OF_GIB
from gpuyard.kube.books import OpenGpu, PodOnGpu
from gpuyard.kube.objects import GpuPod
from gpuyard.policies.multiplex.effects import remember
from gpuyard.policies.multiplex.interference import InterferenceModel
from gpuyard.policies.multiplex.rule import SharingRule
from gpuyard.policies.multiplex.shared_gpus import GpuFact, SharedRoom, TaskFact
from gpuyard.policies.own_code import own_answer, own_code
from gpuyard.policies.registry import MULTIPLEXERS

MOST_JUDGED, MOST_WARMED = 65536, 8192
"""So many judgements are kept, and so many made anew when there is more to go by."""
_UNASKED = nan
"""No judgement is this."""


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
    """A policy and what is known of mixes by now."""

    def __init__(self, rule: SharingRule, known: InterferenceModel) -> None:
        self.rule, self._by = rule, _Judgement(rule, known)

    @property
    def known(self) -> InterferenceModel:
        """What is known of mixes."""
        return self._by.known

    def learn(self, known: InterferenceModel) -> None:
        """Judge by this from now on; whoever is being judged just now is so to the end by what was known before.

        What was asked lately is worked out anew before, so that the next calls do not wait for it.
        """
        learnt = _Judgement(self.rule, known)
        for asked in self._by.asked()[-MOST_WARMED:]:
            with suppress(InputError):  # of a policy that fails: whoever asks is to hear of it
                learnt.score(asked)
        self._by = learnt

    def places(self, pod: GpuPod) -> PodPlaces:
        """The GPUs of one book as places for this pod."""
        return PodPlaces(self._by, pod)


class _Judgement:
    """A policy's judgements by one state of knowledge, each made once."""

    def __init__(self, rule: SharingRule, known: InterferenceModel) -> None:
        self.rule, self.known = rule, known
        self.looks_at_nodes = type(rule).node_score is not SharingRule.node_score
        self._scores: dict[_Asked, float | None] = {}

    def asked(self) -> list[_Asked]:
        """What was asked, the latest last."""
        return list(self._scores)

    def score(self, asked: _Asked) -> float | None:
        """How well a pod would be on a GPU, lowest is best; None where the policy does not let it go."""
        found = self._scores.get(asked, _UNASKED)
        if found is _UNASKED:
            room = asked.room(self.known)
            made = self.answer(lambda: self.rule.score(room) if self.rule.allows(room) else None)
            return remember(self._scores, asked, made, MOST_JUDGED)
        return found

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

    def __init__(self, by: _Judgement, pod: GpuPod) -> None:
        self.pod, self.rule, self._by = pod, by.rule, by
        self._task, self._apart = PodOnGpu(pod.usage, pod.request.memory_gib), by.rule.tells_equal_gpus_apart
        self._scores: dict[object, float | None] = {}
        self._rooms: dict[object, SharedRoom] = {}

    def score(self, where: OpenGpu) -> float | None:
        """How well the pod would be there, lowest is best; None where the policy does not let it go."""
        key = self._key(where)
        found = self._scores.get(key, _UNASKED)
        if found is _UNASKED:
            found = self._scores[key] = self._by.score(self._asked(where))
        return found

    def node_score(self, node: Iterable[OpenGpu], best: float) -> float | None:
        """How well it would be on a node, on the best of whose GPUs it would be so well; lowest is best."""
        if not self._by.looks_at_nodes:
            return best
        rooms = [self._room(each) for each in node if each.gpu.healthy]
        return self._by.answer(lambda: self.rule.node_score(rooms, best))

    def _room(self, where: OpenGpu) -> SharedRoom:
        key = self._key(where)
        if key not in self._rooms:
            self._rooms[key] = self._asked(where).room(self._by.known)
        return self._rooms[key]

    def _key(self, where: OpenGpu) -> object:
        if self._apart:
            return where.node, where.gpu.index
        return id(where.residents) if where.residents else (where.gpu.kind, where.gpu.memory_gib)

    def _asked(self, where: OpenGpu) -> _Asked:
        gpu = where.gpu
        pod, node, number = (self.pod.full_name, where.node, gpu.index) if self._apart else ("", "", 0)
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
