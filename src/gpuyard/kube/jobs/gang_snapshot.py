"""What is seen where gangs are decided about, by who changes nothing: their world, at one moment."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition
from typing import Any

from gpuyard.kube.amounts import made_s
from gpuyard.kube.books import GpuBooks
from gpuyard.kube.client.api import Api, ApiError
from gpuyard.kube.jobs.controller import JobSettings
from gpuyard.kube.jobs.gang_pods import PodOfNode, read_pod_of_node
from gpuyard.kube.jobs.gang_telling import GangTelling
from gpuyard.kube.jobs.gang_world import GangWorld
from gpuyard.kube.jobs.nodes import read_kube_node
from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.resources.training_job import TRAINING_JOBS
from gpuyard.kube.resources.training_task import TRAINING_TASKS
from gpuyard.policies.facts import Facts
from gpuyard.runtime.launching import JobStarts

FORBIDDEN = 403


@dataclass(frozen=True)
class GangFacts:
    """All gangs of a cluster at one moment."""

    facts: Facts
    """As a policy sees them: seconds since 1970; what others have of nodes is not there, GPUs of others are taken."""
    pods: Mapping[str, frozenset[str]]
    """By job, the full names of its pods."""


class ReadOnlyApi(Api):
    """Another API of which nothing but what it shows is used."""

    def __init__(self, api: Api) -> None:
        self._of = api

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, kind: str = "application/json"
    ) -> JsonObject:
        """Ask for something; ApiError for all that would change anything."""
        if method != "GET":
            raise ApiError(FORBIDDEN, "a snapshot changes nothing")
        return self._of.request(method, path, body, kind)


@dataclass
class StillClock:
    """One moment: whoever waits for another one waits no longer for anything."""

    moment_s: float
    over: bool = False
    speed: float = 1.0

    def now(self) -> float:
        """That moment."""
        return self.moment_s

    def wait(self, changed: Condition, until: float) -> None:  # noqa: ARG002
        """There is no other."""
        self.over = True


@dataclass
class _StillBooks:
    books: GpuBooks
    lock: Any = field(default_factory=threading.RLock)


def gang_facts(api: Api, books: GpuBooks, settings: JobSettings, now_s: float) -> GangFacts | None:
    """What a replica that began to lead now would see; None where there is no TrainingJob, or no node with GPUs."""
    listed = _items(api, TRAINING_JOBS.folder())
    found = [(TRAINING_JOBS.read(item), made_s(item["metadata"]) or 0.0) for item in listed]
    nodes = [read_kube_node(item) for item in _items(api, "/api/v1/nodes")]
    if not found or not any(each.yard.gpus for each in nodes):
        return None
    pods = [read_pod_of_node(item) for item in _items(api, "/api/v1/pods")]
    tasks = [TRAINING_TASKS.read(item) for item in _items(api, TRAINING_TASKS.folder())]
    clock = StillClock(now_s)
    world = GangWorld(
        ReadOnlyApi(api), _StillBooks(books), nodes, settings.zoo, clock, settings.rules, settings.patience,
        launching=JobStarts(Path(), 1.0, settings.save_every_s), leads=lambda: not clock.over, say=lambda _: None,
        telling=GangTelling(None), policy=settings.policy.name,
    )  # fmt: skip
    world.begin(found, pods, {f"{task.namespace}/{task.name}": task.status for task in tasks})
    world.wait(None)
    return GangFacts(world.snapshot().facts, _pods_by_job(pods))


def _pods_by_job(pods: list[PodOfNode]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for gang in (pod.gang for pod in pods if pod.gang is not None):
        found[gang.rank.job] = found.get(gang.rank.job, frozenset()) | {f"{gang.namespace}/{gang.name}"}
    return found


def _items(api: Api, path: str) -> list[JsonObject]:
    """All of a kind; none where the cluster does not know it."""
    try:
        return list(api.get(path).get("items") or [])
    except ApiError as error:
        if error.not_found:
            return []
        raise
