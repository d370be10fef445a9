"""A cluster for gangs in virtual time: the API stand-in, nodes that run pods without processes, and a clock that jumps.

Between is the real thing: the controller, its world, its ledgers, and all it writes and reads.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from tests.kube.api_server import ApiStandIn, selection
from tests.kube.builders import gpus
from tests.runtime.virtual_yard import VirtualClock

from gpuyard.kube import names
from gpuyard.kube.client.access import ApiAccess
from gpuyard.kube.client.api import Api, ApiError
from gpuyard.kube.client.following import ListFollower
from gpuyard.kube.events import EventRecorder
from gpuyard.kube.extender.cluster_state import ClusterState
from gpuyard.kube.jobs.controller import GangController, JobSettings
from gpuyard.kube.jobs.gang_pods import ATTEMPT_LABEL, JOB_LABEL, MASTER, RANK_LABEL
from gpuyard.kube.jobs.gang_world import GangWorld
from gpuyard.kube.objects import write_gpus
from gpuyard.kube.resources.definitions import definitions
from gpuyard.policies.controller import control
from gpuyard.policies.decide import Decision, decide
from gpuyard.policies.resolve import resolve
from gpuyard.policies.snapshot import Snapshot
from gpuyard.profiles import load_zoo

Json = dict[str, Any]
STEP_S = 1.0
FOLDER = "/apis/gpuyard.io/v1alpha1/namespaces/lab"


class DeathError(BaseException):
    """The controller is killed."""


class DirectApi(Api):
    """Asks the stand-in without a connection."""

    def __init__(self, stand_in: ApiStandIn) -> None:
        super().__init__(ApiAccess("", 0))
        self._stand_in = stand_in
        self.dies_at: int | None = None
        """At which request from now the controller dies..."""
        self.dies_late = False
        """...and whether that one is still carried out."""

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None, kind: str = "") -> Json:
        dies = self.dies_at == 0
        self.dies_at = None if self.dies_at is None else self.dies_at - 1
        if dies and not self.dies_late:
            raise DeathError
        failure = self._stand_in.fails(method, path)
        if failure:
            raise ApiError(failure, "it failed")
        where, _, query = path.partition("?")
        status, answer = self._stand_in.answer(method, where, deepcopy(dict(body or {})), selection(parse_qs(query)))
        if failure == 0:
            raise ApiError(0, "the answer is lost")
        if dies:
            raise DeathError
        if status >= http.client.BAD_REQUEST:
            raise ApiError(status, str(answer.get("message")))
        return deepcopy(answer)


@dataclass
class GangYard:
    """Nodes and their pods. Submit jobs, then let it run."""

    policy: str = "fifo+tune"
    round_s: float = 60.0
    start_s: float = 5.0
    leave_s: float = 30.0
    starvation_s: float | None = None
    quotas: Mapping[str, float] = field(default_factory=dict)
    tells_steps: bool = True
    clock: VirtualClock = field(default_factory=VirtualClock)

    def __post_init__(self) -> None:
        self.chosen = resolve(self.policy, starvation_s=self.starvation_s)
        self.server = ApiStandIn()
        self.server.graceful = True
        self.server.moment = lambda: _moment(self.clock.now())
        for each in definitions():
            self.server.put(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{each['metadata']['name']}", each)
        self.saved: dict[str, int] = {}
        self.crashes: dict[str, str] = {}
        """Jobs whose pods end at once, with their last words."""
        self.deaf: set[str] = set()
        """Jobs that do not hear where to stop."""
        self.slow: dict[str, float] = {}
        self.seen: list[tuple[Snapshot, Decision]] = []
        self.said: list[str] = []
        self._since: dict[str, tuple[float, int]] = {}
        """By path of a pod, when it began and after which step."""
        self._told = 0
        self.gangs: dict[tuple[str, str], set[str]] = {}
        """By job and attempt, the paths of pods that have begun."""
        self.start_controller()

    # The controller

    def start_controller(self) -> None:
        """A controller that knows nothing yet."""
        self.api = DirectApi(self.server)
        self.state = ClusterState(self.said.append)
        settings = JobSettings(
            self.chosen, load_zoo(), self.round_s, dict(self.quotas), self.leave_s, beat_s=5.0
        )  # fmt: skip
        self.events = EventRecorder(self.api, self.said.append, clock=self.clock.now, wall=self.clock.now)
        self.controller = GangController(
            self.api, self.state, settings, self.said.append, self.clock, events=self.events
        )
        self._lists: list[tuple[str, tuple[ListFollower, ...]]] = [
            ("/api/v1/nodes", (self.state.of_nodes, self.controller.of_nodes)),
            ("/api/v1/pods", (self.state.of_pods, self.controller.of_pods)),
            *((path, (inbox,)) for path, inbox in self.controller.own_lists.items()),
        ]
        self._heard = self.server.version
        for path, followers in self._lists:
            items = deepcopy(self.server.answer("GET", path, {})[1]["items"])
            for each in followers:
                each.replace(deepcopy(items))

    def pump(self) -> bool:
        """Let nodes and controller hear what has happened; whether anything has."""
        before = self._heard
        for number, kind, path, thing in [each for each in self.server.events if each[0] > self._heard]:
            self._heard = number
            for folder, followers in self._lists:
                if is_of(path, folder):
                    for each in followers:
                        each.change(deepcopy(thing), gone=kind == "DELETED")
        self._run_pods()
        return self._heard != before

    def run(self, until: float = 2e4, *, all_over: bool = True) -> GangWorld:
        """Let time pass until all jobs are over, or this moment."""

        def leads() -> bool:
            return self.clock.now() < until and not (all_over and self.over())

        self.pump()
        world = self.controller.open_world(leads)
        assert world is not None
        self.world = world
        control(_Pumped(world, self), self._decide)
        return world

    def _decide(self, snapshot: Snapshot) -> Decision:
        found = decide(self.chosen, snapshot)
        self.seen.append((snapshot, found))
        return found

    # What there is

    def add_node(self, name: str, count: int, *, cpus: float = 12, memory_gb: float = 250, kind: str = "V100") -> None:
        """A node that is ready."""
        annotations = {names.GPUS_OF_NODE: write_gpus(gpus(*[16] * count, kind=kind))}
        status = {
            "allocatable": {"cpu": f"{cpus * 1000:g}m", "memory": f"{int(memory_gb * 1e9)}"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        self.server.add_node({"metadata": {"name": name, "annotations": annotations}, "spec": {}, "status": status})

    def set_ready(self, name: str, ready: bool) -> None:
        """A node is heard of, or not any more."""
        node = deepcopy(self.server.objects[f"/api/v1/nodes/{name}"])
        node["status"]["conditions"] = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
        self.server.add_node(node)

    def remove_node(self, name: str) -> None:
        """A node is taken out of the cluster, and Kubernetes removes its pods."""
        self.server.remove(f"/api/v1/nodes/{name}")
        for pod in self.pods():
            if pod["spec"].get("nodeName") == name:
                self.server.remove(f"/api/v1/namespaces/lab/pods/{pod['metadata']['name']}")

    def submit(self, name: str, gpus: int = 1, *, iterations: int = 100, **spec: Any) -> None:
        """Create a TrainingJob."""
        template = {"spec": {"containers": [{"name": "train", "image": "trainer"}]}}
        wanted = {"gpus": gpus, "model": "resnet50", "iterations": iterations, "template": template, **spec}
        thing: Json = {
            "apiVersion": "gpuyard.io/v1alpha1",
            "kind": "TrainingJob",
            "metadata": {"name": name},
            "spec": wanted,
        }
        thing["metadata"]["namespace"] = "lab"
        status, answer = self.server.answer("POST", f"{FOLDER}/trainingjobs", thing)
        assert status == 201, answer

    def cancel(self, name: str) -> None:
        """As `gpuyard kube cancel` does."""
        self.server.answer("PATCH", f"{FOLDER}/trainingjobs/{name}", {"spec": {"cancelled": True}})

    def job(self, name: str) -> Json:
        """The status of a job."""
        return dict(self.server.objects[f"{FOLDER}/trainingjobs/{name}"].get("status") or {})

    def phases(self) -> dict[str, str]:
        """Of all jobs."""
        return {path.rsplit("/", 1)[1]: (thing.get("status") or {}).get("phase", "")
                for path, thing in self.server.objects.items() if "/trainingjobs/" in path}  # fmt: skip

    def over(self) -> bool:
        """Whether nothing will happen any more."""
        over = set(self.phases().values()) <= {"Succeeded", "Failed", "Cancelled"}
        return over and not [pod for pod in self.pods() if pod["status"].get("phase") in ("Pending", "Running")]

    def pods(self, job: str = "") -> list[Json]:
        """Pods of gangs, in the order in which they came."""
        found = [thing for path, thing in self.server.objects.items() if "/pods/" in path]
        return [each for each in found if job in ("", (each["metadata"].get("labels") or {}).get(JOB_LABEL))]

    # Nodes

    def _run_pods(self) -> None:
        for event in self.server.events[self._told :]:
            _, kind, path, thing = event
            self._told += 1
            if "/pods/" not in path or kind == "DELETED" or path not in self.server.objects:
                continue
            status = thing.setdefault("status", {})
            if thing["spec"].get("nodeName") and path not in self._since:
                self._since[path] = (-1.0, 0)
                self.clock.at(self.clock.now() + self.start_s, partial(self._begin, path))
            if thing["metadata"].get("deletionTimestamp") and status.get("phase") != "Failed":
                grace = min(thing["metadata"]["deletionGracePeriodSeconds"], 2)
                self.clock.at(self.clock.now() + grace, partial(self._end, path, 143, remove=True))
        for path, thing in list(self.server.objects.items()):
            if "/trainingtasks/" in path and not (thing.get("status") or {}).get("left"):
                spec = thing["spec"]
                if spec.get("stop") or spec.get("stopAt") is not None:
                    self._hear_stop(path.replace("/trainingtasks/", "/pods/").replace(_CUSTOM, "/api/v1"), spec)

    def _change(self, path: str, **status: Any) -> None:
        pod = deepcopy(self.server.objects[path])
        pod.setdefault("status", {}).update(status)
        self.server.put(path, pod)

    def _begin(self, path: str) -> None:
        pod = self.server.objects.get(path)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return
        labels = pod["metadata"].get("labels") or {}
        job = labels.get(JOB_LABEL, "")
        number = len(self._since)
        self._change(path, phase="Running", podIP=f"10.0.{number // 250}.{number % 250}")
        if job in self.crashes:
            self._end(path, 1, message=self.crashes[job])
            return
        if not job:
            return
        world = int(next(each["value"] for each in pod["spec"]["containers"][0]["env"] if each["name"] == "WORLD_SIZE"))
        if labels[RANK_LABEL] != "0":
            first = self.server.objects[path.rsplit("-", 1)[0] + "-0"]
            assert pod["metadata"]["annotations"][MASTER] == first["status"]["podIP"], "it would not find the others"
        self.gangs.setdefault((job, labels[ATTEMPT_LABEL]), set()).add(path)
        if len(self.gangs[job, labels[ATTEMPT_LABEL]]) == world:  # they train once all are there
            for each in self.gangs[job, labels[ATTEMPT_LABEL]]:
                self._train(each, job)

    def _train(self, path: str, job: str) -> None:
        if path not in self.server.objects:
            return
        first = self.saved.get(job, 0)
        self._since[path] = (self.clock.now(), first)
        if self.tells_steps:
            self._tell(path, loadedStep=first, step=first, savedStep=first)
            self._report(path, job)
        total = int(self._spec(job).get("iterations") or 10**9)
        self.clock.at(self.clock.now() + (total - first) * self._step_s(job), partial(self._finish, path, job, total))

    def _step_s(self, job: str) -> float:
        return self.slow.get(job, 1.0) * STEP_S

    def _report(self, path: str, job: str) -> None:
        if self._runs(path):
            self._tell(path, step=self._step(path, job), savedStep=self.saved.get(job, 0))
            self.clock.at(self.clock.now() + 10.0, partial(self._report, path, job))

    def _step(self, path: str, job: str) -> int:
        since, first = self._since[path]
        return first + int((self.clock.now() - since) / self._step_s(job) + 1e-9) if since >= 0 else first

    def _spec(self, job: str) -> Json:
        return dict((self.server.objects.get(f"{FOLDER}/trainingjobs/{job}") or {"spec": {}})["spec"])

    def _runs(self, path: str) -> bool:
        pod = self.server.objects.get(path)
        return pod is not None and pod["status"].get("phase") == "Running"

    def _finish(self, path: str, job: str, total: int) -> None:
        if self._runs(path) and self._step(path, job) >= total:
            self._save(path, job, total)
            if self.tells_steps:
                self._tell(path, step=total, savedStep=total, finished=True, left=True)
            self._end(path, 0)

    def _save(self, path: str, job: str, step: int) -> None:
        assert step >= self.saved.get(job, 0), "an older process has overwritten what a newer one has saved"
        self.saved[job] = step

    def _hear_stop(self, path: str, spec: Json) -> None:
        job = str(spec["job"])
        if not self._runs(path) or job in self.deaf or self._since[path][0] < 0:
            return
        now = self._step(path, job)
        at = max(spec["stopAt"], now) if spec.get("stopAt") is not None else now
        assert spec.get("stopAt") is None or spec["stopAt"] >= now, "it hears too late where to stop"
        self._tell(path, left=True)
        self.clock.at(self.clock.now() + (at - now) * self._step_s(job), partial(self._leave, path, job, at))

    def _leave(self, path: str, job: str, step: int) -> None:
        if self._runs(path):
            self._save(path, job, step)
            self._tell(path, step=step, savedStep=step, left=True)
            self._end(path, 0)

    def _tell(self, path: str, **state: Any) -> None:
        task = path.replace("/api/v1", _CUSTOM).replace("/pods/", "/trainingtasks/")
        if task in self.server.objects:
            status, answer = self.server.answer("PATCH", f"{task}/status", {"status": state})
            assert status == 200, answer

    def _end(self, path: str, code: int, *, message: str = "", remove: bool = False) -> None:
        pod = self.server.objects.get(path)
        if pod is None:
            return
        if pod["status"].get("phase") not in ("Succeeded", "Failed"):
            over = {"exitCode": code, "message": message}
            states = [{"state": {"terminated": over}}]
            self._change(path, phase="Failed" if code else "Succeeded", containerStatuses=states)
        if remove:
            self.server.remove(path)

    def lose(self, node: str) -> None:
        """A machine dies: its pods no longer do anything, and nobody says so but the time."""
        self.set_ready(node, ready=False)
        for path, pod in list(self.server.objects.items()):
            if "/pods/" in path and pod["spec"].get("nodeName") == node:
                self._since[path] = (-1.0, 0)
                self._change(path, phase="Unknown")

    def check(self) -> None:
        """No GPU is over-committed, and no node's CPUs and memory."""
        self.state.books.check()
        held: dict[tuple[str, str], str] = {}
        for pod in self.pods():
            if not pod["spec"].get("nodeName") or pod["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            for gpu in pod["metadata"]["annotations"].get(names.DEVICES, "").split(","):
                place = (pod["spec"]["nodeName"], gpu)
                assert place not in held, f"{pod['metadata']['name']} and {held.get(place)} have {place}"
                held[place] = pod["metadata"]["name"]


_CUSTOM = "/apis/gpuyard.io/v1alpha1"


def is_of(path: str, folder: str) -> bool:
    """Whether an object is in a list of the whole cluster."""
    plural = folder.rsplit("/", 1)[1]
    return path.rsplit("/", 2)[1] == plural and path.startswith(folder.rsplit("/", 1)[0])


def _moment(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat()


class _Pumped:
    """The world, which hears of everything whenever time has passed."""

    def __init__(self, world: GangWorld, yard: GangYard) -> None:
        self._world, self._yard = world, yard
        self.snapshot, self.apply = world.snapshot, world.apply
        wait = yard.clock.wait

        def waiting(changed: threading.Condition, until: float) -> None:
            if not yard.pump():
                wait(changed, until)
                yard.pump()
            yard.check()

        self._clock_wait = waiting

    @property
    def now(self) -> float:
        return self._world.now

    def wait(self, last: Decision | None) -> bool:
        before = self._yard.clock.wait
        self._yard.clock.wait = self._clock_wait  # type: ignore[method-assign, assignment]
        try:
            return self._world.wait(last)
        finally:
            self._yard.clock.wait = before  # type: ignore[method-assign]
