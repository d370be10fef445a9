"""The SharedGPUs of a node: one for each GPU that it has, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from gpuyard.kube.client.api import Api, ApiError, each_in_turn
from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.node.labels import node_label
from gpuyard.kube.node.node_tasks import NodeTasks
from gpuyard.kube.node.status_writer import StatusWriter
from gpuyard.kube.node.statuses import Stamp, gpu_state, measured_mix
from gpuyard.kube.objects import YardGpu
from gpuyard.kube.resources.conditions import since
from gpuyard.kube.resources.custom_kinds import owner_reference
from gpuyard.kube.resources.records import change_to
from gpuyard.kube.resources.shared_gpu import (
    MOST_MEASURED,
    SHARED_GPUS,
    GpuState,
    GpuWanted,
    MeasuredMix,
    SharedGpu,
    shared_gpu_name,
)
from gpuyard.sharing.mix_samples import MixSample
from gpuyard.sharing.task_tuning import NodeTuning

FORGET_S = 60.0
"""How long a measured mix waits for somebody to say which pods it was."""
CLOCK_SET_S = 1.0
"""A time of day that is further from what it was to be: somebody has set the clock."""


@dataclass
class _GpuObject:
    """What is known of one object."""

    gpu: YardGpu
    uid: str = ""
    """Empty until it has been read, or made."""
    said: GpuState = field(default_factory=GpuState)


class GpuObjects:
    """All SharedGPUs of a node."""

    def __init__(self, api: Api, node: str, gpus: Sequence[YardGpu], writer: StatusWriter, stamp: Stamp) -> None:
        self._api, self._node, self._writer, self._stamp = api, node, writer, stamp
        self._objects = [_GpuObject(gpu) for gpu in gpus]
        self._tidy = False
        """Whether what was left of GPUs that are gone has been removed."""
        self._waiting: list[tuple[int, MixSample, float]] = []
        self._last_at = datetime.min.replace(tzinfo=UTC)

    def step(self, tasks: NodeTasks, tuning: NodeTuning, now: float) -> None:
        """Make objects be there and say what is; ApiError if the API server does not let it."""
        if not self._tidy or not all(each.uid for each in self._objects):
            self._find()
        with tasks.lock:
            for number, samples in tuning.measured.items():
                self._waiting += [(number, sample, now) for sample in samples]
                samples.clear()
        each_in_turn(partial(self._say, each, tasks, tuning, now) for each in self._objects if each.uid)
        self._waiting = [each for each in self._waiting if now - each[2] < FORGET_S]

    def _say(self, one: _GpuObject, tasks: NodeTasks, tuning: NodeTuning, now: float) -> None:
        number = one.gpu.index
        with tasks.lock:
            here = {secret: tasks.tasks[secret] for secret in tasks.company(number)}
            state = gpu_state(here, tuning.view(number), self._stamp)
            self._measured(one, tasks)
        conditions = since(one.said.conditions, state.conditions, self._stamp(now))
        one.said = replace(state, observations=one.said.observations, conditions=conditions)
        told = replace(one.said, observed_at=self._stamp(now))
        path = SHARED_GPUS.status_path(shared_gpu_name(self._node, number))
        decisive = (told.phase, tuple((each.namespace, each.pod) for each in told.tasks), told.observations[-1:])
        try:
            self._writer.offer(path, one.uid, change_to(told), decisive)
        except ApiError as error:
            if error.not_found:
                one.uid = ""  # somebody has removed it: it is made anew
            raise

    def _measured(self, one: _GpuObject, tasks: NodeTasks) -> None:
        """Take over what was measured there, once it is known which pods these tasks are."""
        fresh: list[MeasuredMix] = []
        left = []
        for number, sample, at in self._waiting:
            mix = measured_mix(sample, tasks.tasks, one.gpu.kind, "") if number == one.gpu.index else None
            if mix is not None:
                fresh.append(replace(mix, at=self._moment(at)))
            else:
                left.append((number, sample, at))
        self._waiting = left
        one.said = replace(one.said, observations=(*one.said.observations, *fresh)[-MOST_MEASURED:])

    def _moment(self, at: float) -> str:
        """The time of day of a measurement; each has its own, by which it is known.

        Where the last one is of the future the clock was ahead then, and is right now.
        """
        told = datetime.fromisoformat(self._stamp(at))
        if self._last_at <= told + timedelta(seconds=FORGET_S):
            told = max(told, self._last_at + timedelta(microseconds=1))
        self._last_at = told
        return _written(told)

    def _find(self) -> None:
        """Read the objects that are there, make those that are missing, remove those of GPUs that are gone."""
        listed = self._api.get(SHARED_GPUS.folder(), labelSelector=node_label(self._node))
        there = [SHARED_GPUS.read(each) for each in listed.get("items") or ()]
        mine = {each.name: each for each in there if each.spec.node == self._node}
        for one in self._objects:
            found = mine.pop(shared_gpu_name(self._node, one.gpu.index), None)
            self._take(one, found if found is not None else SHARED_GPUS.read(self._make(one.gpu)))
        for name in mine:
            self._api.delete(SHARED_GPUS.path(name))
        self._tidy = True

    def _take(self, one: _GpuObject, found: SharedGpu) -> None:
        wanted = self._wanted(one.gpu)
        if found.spec != wanted:
            self._api.patch(SHARED_GPUS.path(found.name), {"metadata": {"uid": found.uid}, "spec": change_to(wanted)})
        if not one.said.conditions:  # this daemon has just begun: it goes on from what was said before
            one.said = found.status
        for mix in found.status.observations:
            self._last_at = max(self._last_at, _time_of(mix))
        one.uid = found.uid

    def _make(self, gpu: YardGpu) -> JsonObject:
        node = self._api.get(f"/api/v1/nodes/{self._node}")
        owner = owner_reference("Node", self._node, str(node["metadata"]["uid"]))
        key, _, value = node_label(self._node).partition("=")
        thing = SHARED_GPUS.new(
            shared_gpu_name(self._node, gpu.index), self._wanted(gpu), owner=owner, labels={key: value}
        )
        return self._api.post(SHARED_GPUS.folder(), thing)

    def _wanted(self, gpu: YardGpu) -> GpuWanted:
        return GpuWanted(self._node, gpu.index, gpu.kind, gpu.memory_gib)


def _time_of(mix: MeasuredMix) -> datetime:
    try:
        return datetime.fromisoformat(mix.at).astimezone(UTC)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)


def time_of_day(clock: Callable[[], float], wall: Callable[[], datetime]) -> Stamp:
    """From moments of a clock that nobody sets to the time of day, in UTC, as it is now."""
    begin = wall() - timedelta(seconds=clock())

    def stamp(moment: float) -> str:
        nonlocal begin
        found = wall() - timedelta(seconds=clock())
        if abs(found - begin) > timedelta(seconds=CLOCK_SET_S):
            begin = found
        return _written(begin + timedelta(seconds=moment))

    return stamp


def _written(at: datetime) -> str:
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")
