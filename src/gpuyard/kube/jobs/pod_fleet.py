"""Processes that are pods: makes them, binds them to what was granted, lets them leave, and removes them.

What an API server does not answer is tried again at the next step; what it refuses counts as a process that failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpuyard.client.session import RankName
from gpuyard.core.errors import GpuyardError
from gpuyard.core.grants import Part
from gpuyard.kube.amounts import BesideGpus
from gpuyard.kube.binding import binding_of
from gpuyard.kube.client.api import Api, ApiError, pod_path
from gpuyard.kube.jobs.gang_pods import MASTER, GangPod, make_pod
from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.objects import read_pod
from gpuyard.kube.resources.custom_kinds import owner_reference
from gpuyard.kube.resources.training_job import TrainingJob
from gpuyard.kube.resources.training_task import TRAINING_TASKS, TaskWanted
from gpuyard.runtime.commands import AgentCommand, ChangeLease, KillRanks, StartRanks
from gpuyard.runtime.records import Attempt, JobRecord
from gpuyard.runtime.reports import RankExit, RankProgress

CONFLICT = 409
AT_ONCE_S = 1
"""What a pod that is killed has between SIGTERM and SIGKILL."""
GpuOfNode = tuple[str, int]
"""A node of Kubernetes, and the number of a GPU there."""


@dataclass
class _Start:
    """A gang whose pods are being made and bound."""

    thing: TrainingJob
    attempt: Attempt
    made: dict[int, JsonObject] = field(default_factory=dict)
    bound: set[int] = field(default_factory=set)

    @property
    def next_rank(self) -> int:
        """The first process whose pod is not made, or not bound, yet."""
        ranks = range(len(self.attempt.ranks))
        missing = (rank for done in (self.made, self.bound) for rank in ranks if rank not in done)
        return next(missing, 0)


@dataclass
class _End:
    """An attempt whose pods are to be deleted."""

    seconds: int
    """What they have to leave."""
    made: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Names, with namespace and uid, of pods that the list of pods may not show yet."""


class PodFleet:
    """Reaches the pods of all gangs (`Agents`). Its thread is the one that drives the world."""

    def __init__(
        self, api: Api, things: Mapping[str, TrainingJob], records: Callable[[], Mapping[str, JobRecord]],
        place: Callable[[Part], GpuOfNode], exited: Callable[[RankExit], None], *, leave_s: float, save_every_s: float,
        leads: Callable[[], bool], unkept: Collection[str] = (), now_ns: Callable[[], int] = time.time_ns,
    ) -> None:  # fmt: skip
        self._api, self._things, self._records, self._place, self._exited = api, things, records, place, exited
        self._leave_s, self._save_every_s, self._leads, self._now_ns = leave_s, save_every_s, leads, now_ns
        self._unkept = unkept
        """Jobs for which nothing is done, as it cannot be kept."""
        self.pods: dict[RankName, GangPod] = {}
        """As the API server last showed them."""
        self._starts: dict[tuple[str, int], _Start] = {}
        self._ends: dict[tuple[str, int], _End] = {}
        self._leases: dict[tuple[str, int], ChangeLease] = {}

    def tell(self, node: str, command: AgentCommand) -> None:  # noqa: ARG002 - pods know where they are
        """Note what is wanted; `advance` does it."""
        if isinstance(command, StartRanks):
            attempt = self._records()[command.job].attempt
            if attempt is not None and attempt.number == command.attempt and command.job in self._things:
                self._starts.setdefault((command.job, command.attempt), _Start(self._things[command.job], attempt))
        elif isinstance(command, KillRanks):
            self._ends.setdefault((command.job, command.attempt), _End(AT_ONCE_S)).seconds = AT_ONCE_S
        elif isinstance(command, ChangeLease) and command.lease.stop:
            record, key = self._records().get(command.job), (command.job, command.attempt)
            if record is not None and record.told_steps and key not in self._starts:
                self._leases[key] = command
            else:  # SIGTERM is all that a command understands that knows nothing of steps
                self._ends.setdefault(key, _End(max(int(self._leave_s), AT_ONCE_S)))

    def all_run(self, record: JobRecord) -> bool:
        """Whether every pod of a job's attempt has been started by its node."""
        attempt = record.attempt
        if attempt is None:
            return False
        pods = (self.pods.get(RankName(record.name, attempt.number, rank)) for rank in range(len(attempt.ranks)))
        return all(pod is not None and pod.phase != "Pending" for pod in pods)

    def advance(self) -> None:
        """Do all that can be done now."""
        if not self._leads():
            return
        for key, end in list(self._ends.items()):
            if key[0] not in self._unkept and self._end(key, end):
                del self._ends[key]
        for key, start in list(self._starts.items()):
            if key[0] not in self._unkept and self._go_on(key, start):
                self._starts.pop(key, None)
        for key, command in list(self._leases.items()):
            if key[0] not in self._unkept and self._tell_lease(command):
                del self._leases[key]

    # Starting

    def _go_on(self, key: tuple[str, int], start: _Start) -> bool:
        """Make all pods, then bind the first, and as soon as its address is known the others; whether that is done."""
        record = self._records().get(key[0])
        if record is None or record.attempt is not start.attempt:
            self._ends.setdefault(key, _End(AT_ONCE_S))  # it is over: no pod of it may be left
            return False
        if start.attempt.killed:
            return False
        ranks = range(len(start.attempt.ranks))
        try:
            for rank in ranks:
                if rank not in start.made:
                    start.made[rank] = self._make(start, rank)
            for rank in ranks:
                if rank in start.bound:
                    continue
                address = self._address(key) if rank else ""
                if rank and not address:
                    return False
                self._bind(start, rank, address)
                start.bound.add(rank)
        except ApiError as error:
            if error.passes:
                return False
            self._refused(key, start, str(error))
            return False
        except Exception as error:  # whatever is wrong with one job holds up no other
            self._refused(key, start, str(error) if isinstance(error, GpuyardError) else repr(error))
            return False
        self._sweep(*key)
        return True

    def _make(self, start: _Start, rank: int) -> JsonObject:
        thing, attempt = start.thing, start.attempt
        part = attempt.grant.parts[rank]
        beside = BesideGpus(part.amounts.get("cpus", 0.0), part.amounts.get("memory_gb", 0.0))
        wanted = make_pod(thing, attempt.number, rank, len(attempt.ranks), beside, self._save_every_s)
        made = self._create(f"/api/v1/namespaces/{thing.namespace}/pods", wanted)
        if thing.uid not in [each.get("uid") for each in made["metadata"].get("ownerReferences") or ()]:
            raise ApiError(CONFLICT, f"pod {wanted['metadata']['name']} is there already, and another job's")
        if read_pod(made).ended or made["metadata"].get("deletionTimestamp"):
            raise ApiError(CONFLICT, f"pod {wanted['metadata']['name']} has ended already")
        node, gpu = self._place(part)
        steps = thing_steps(self._records(), thing)
        task = TRAINING_TASKS.new(
            made["metadata"]["name"], TaskWanted(node, (gpu,), thing.name, rank, steps), namespace=thing.namespace,
            owner=owner_reference("Pod", made["metadata"]["name"], made["metadata"]["uid"]),
        )  # fmt: skip
        self._create(TRAINING_TASKS.folder(thing.namespace), task)
        return made

    def _create(self, folder: str, wanted: JsonObject) -> JsonObject:
        """Create an object, or find the one that an earlier request has made."""
        try:
            return self._api.post(folder, wanted)
        except ApiError as error:
            if error.status != CONFLICT:
                raise
            return self._api.get(f"{folder}/{wanted['metadata']['name']}")

    def _address(self, key: tuple[str, int]) -> str:
        first = self.pods.get(RankName(*key, 0))
        return first.address if first is not None else ""

    def _bind(self, start: _Start, rank: int, address: str) -> None:
        """Bind a pod; one that is bound already was bound by this very request, whose answer was lost."""
        made = start.made[rank]
        node, gpu = self._place(start.attempt.grant.parts[rank])
        placed = replace(read_pod(made), node=node, devices=(gpu,), chosen_at=self._now_ns())
        path = pod_path(placed.namespace, placed.name)
        try:
            self._api.post(f"{path}/binding", binding_of(placed, {MASTER: address} if address else None))
        except ApiError as error:
            if error.status != CONFLICT or read_pod(self._api.get(path)).node != node:
                raise

    def _refused(self, key: tuple[str, int], start: _Start, why: str) -> None:
        """One process has failed; the end of the attempt follows from that, once it is kept."""
        self._exited(RankExit(RankProgress(RankName(*key, start.next_rank)), -1, tail=why))

    # Leaving

    def _end(self, key: tuple[str, int], end: _End) -> bool:
        """Delete the pods of an attempt; whether all of them have been asked to go."""
        start = self._starts.pop(key, None)
        if start is not None:
            for rank in range(len(start.attempt.ranks)):
                made = start.made.get(rank)
                if made is None:
                    self._exited(RankExit(RankProgress(RankName(*key, rank)), -1, tail="it was not started any more"))
                else:
                    end.made[made["metadata"]["name"]] = made["metadata"]["namespace"], made["metadata"]["uid"]
        there = end.made | {pod.name: (pod.namespace, pod.uid) for pod in self._pods_of(key)}
        asked = [self._delete(namespace, name, uid, end.seconds) for name, (namespace, uid) in there.items()]
        return all(asked)

    def _pods_of(self, key: tuple[str, int]) -> Iterator[GangPod]:
        return (pod for name, pod in self.pods.items() if (name.job, name.attempt) == key and not pod.ended)

    def _delete(self, namespace: str, name: str, uid: str, seconds: int) -> bool:
        options = {
            "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": seconds, "preconditions": {"uid": uid}
        }  # fmt: skip
        path = pod_path(namespace, name)
        try:
            self._api.request("DELETE", path, options)
        except ApiError as error:
            return error.not_found or (error.status == CONFLICT and self._is_another(path, uid))
        return True

    def _is_another(self, path: str, uid: str) -> bool:
        """Whether the pod that has this name now is not the one that was meant."""
        try:
            return str(self._api.get(path)["metadata"].get("uid")) != uid
        except ApiError as error:
            return error.not_found

    def _tell_lease(self, command: ChangeLease) -> bool:
        """Tell all processes of an attempt where to stop, through their tasks; whether all could be told."""
        limit = command.lease.limit
        wanted: JsonObject = {"stop": True} if limit < 0 else {"stopAt": limit}
        told = True
        for pod in self._pods_of((command.job, command.attempt)):
            try:
                self._api.patch(TRAINING_TASKS.path(pod.name, pod.namespace), {"spec": wanted})
            except ApiError as error:
                told = told and not error.passes
        return told

    def _sweep(self, job: str, attempt: int) -> None:
        """Remove pods that earlier attempts have left, but those of the last one: somebody may read what they wrote."""
        for name, pod in list(self.pods.items()):
            if name.job == job and name.attempt < attempt - 1 and pod.ended and not pod.going:
                self._delete(pod.namespace, pod.name, pod.uid, AT_ONCE_S)


def thing_steps(records: Mapping[str, JobRecord], thing: TrainingJob) -> int | None:
    """The steps of a job, if somebody knows them."""
    steps = records[f"{thing.namespace}/{thing.name}"].total_steps
    return steps if steps >= 0 else None
