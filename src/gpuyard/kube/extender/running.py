"""Runs the extender: follows the cluster, takes part in the election, and answers until it is told to stop."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from gpuyard.core.steady_thread import SteadyThread
from gpuyard.kube import names
from gpuyard.kube.client.api import Api, ApiError, pod_path
from gpuyard.kube.client.following import Following, ListFollower
from gpuyard.kube.client.lease import RENEW_S, LeaderLease
from gpuyard.kube.events import PAUSE_S, EventRecorder
from gpuyard.kube.extender.answers import Extender
from gpuyard.kube.extender.asking_again import LOOK_S as ASK_S
from gpuyard.kube.extender.asking_again import AskingAgain
from gpuyard.kube.extender.cluster_state import ClusterState
from gpuyard.kube.extender.figures import ClusterFacts
from gpuyard.kube.extender.learning import LOOK_S as LEARN_S
from gpuyard.kube.extender.learning import Learning, SharedGpuList
from gpuyard.kube.extender.metrics import ExtenderMetrics
from gpuyard.kube.extender.server import ExtenderServer
from gpuyard.kube.extender.telling import LOOK_S as TELL_S
from gpuyard.kube.extender.telling import Telling
from gpuyard.kube.jobs.controller import GangController, JobSettings
from gpuyard.kube.judging import PodJudge
from gpuyard.kube.resources.shared_gpu import SHARED_GPUS
from gpuyard.kube.resources.training_task import TRAINING_TASKS

LEASE_NAME = "gpuyard-extender"
NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
POLL_S = 0.2


@dataclass(frozen=True)
class ExtenderSettings:
    """How an extender runs."""

    host: str = "127.0.0.1"
    port: int = 12345
    tls: ssl.SSLContext | None = None
    namespace: str = ""
    """Where the lease of the election is; without one this is the only replica."""
    identity: str = ""
    pod: str = ""
    """The pod of this replica, which is marked while it leads; empty: there is none."""
    jobs: JobSettings | None = None
    """How gangs of pods are scheduled; None: nobody here does that."""


@dataclass(frozen=True)
class _All:
    """Several who are told of one list."""

    followers: tuple[ListFollower, ...]

    def replace(self, items: list[dict[str, Any]]) -> None:
        for each in self.followers:
            each.replace(items)

    def change(self, item: dict[str, Any], *, gone: bool) -> None:
        for each in self.followers:
            each.change(item, gone=gone)


@contextmanager
def running_extender(
    api: Api, judge: PodJudge, settings: ExtenderSettings, say: Callable[[str], None]
) -> Iterator[ExtenderServer]:
    """An extender that answers until the block ends."""
    state, events = ClusterState(say), EventRecorder(api, say)
    gangs = GangController(api, state, settings.jobs, say, events=events) if settings.jobs is not None else None
    lists: dict[str, ListFollower] = {NODES: state.of_nodes, PODS: state.of_pods}
    if gangs is not None:
        lists |= {NODES: _All((state.of_nodes, gangs.of_nodes)), PODS: _All((state.of_pods, gangs.of_pods))}
        lists |= gangs.own_lists
    follow = [Following(api, path, follower, say) for path, follower in lists.items()]

    def began() -> None:
        """Another replica led until now: know all that it did before deciding anything."""
        for each in follow:
            each.list_now()
        mark("true")
        say(f"{settings.identity} leads")

    def no_longer() -> None:
        say(f"{settings.identity} leads no longer")
        with suppress(ApiError):
            mark(None)

    def mark(leads: str | None) -> None:
        if settings.pod:
            api.patch(pod_path(settings.namespace, settings.pod), {"metadata": {"labels": {names.LEADS: leads}}})

    lease = None
    if settings.namespace:
        lease = LeaderLease(api, settings.namespace, LEASE_NAME, settings.identity, began=began, ended=no_longer)
    leads = lease.leads if lease else lambda: True

    def missing() -> str:
        if not all(each.listed.is_set() for each in follow):
            return "the cluster has not been listed yet"
        return "; ".join(each.trouble for each in follow if each.trouble)

    def decides() -> bool:
        return leads() and not missing()

    def acts() -> bool:
        """Nobody is bound before it is known which GPUs gangs are to have."""
        return decides() and (gangs is None or gangs.ready)

    gpus = SharedGpuList()
    telling = Telling(events, state, judge, acts)
    learning = Learning(api, settings.namespace, judge, gpus, acts, say)
    extender = Extender(api, state, judge, leads=acts, telling=telling)

    def facts() -> ClusterFacts:
        with state.lock:
            books = state.books
            return ClusterFacts(
                gpus=[each for node in books.nodes for each in books.open_gpus(node)],
                disputed=sum(len(books.disputes(node)) for node in books.nodes),
                waiting=[each.because for each in state.refused.values()],
                shared=gpus.all(),
                known=judge.known,
                learnt=learning.mixes,
                events_lost=events.lost,
            )

    metrics = ExtenderMetrics(facts)
    # Pods are bound without these lists, and before a cluster has them: nobody waits for what nodes measure.
    measured = [
        Following(api, SHARED_GPUS.folder(), gpus, say),
        Following(api, TRAINING_TASKS.folder(), telling, say),
    ]
    asking = AskingAgain(api, state, judge, acts, say)
    threads = [
        SteadyThread("asking again", asking.wait_and_step, ASK_S, say),
        SteadyThread("events", events.step, PAUSE_S, say),
        SteadyThread("telling", telling.look, TELL_S, say),
        SteadyThread("learning", learning.step, LEARN_S, say),
    ]
    if lease is not None:
        threads.insert(0, SteadyThread("lease", lease.step, RENEW_S, say))

    def ended() -> str:
        """What nobody does any more: a new process would."""
        gone = [each.name for each in threads if each.gone] + [each.name for each in (*follow, *measured) if each.gone]
        return "; ".join(f"{name} has ended" for name in gone)

    server = ExtenderServer((settings.host, settings.port), extender, metrics, missing, settings.tls, ended)
    thread = threading.Thread(target=server.serve_forever, args=(POLL_S,), name="extender", daemon=True)
    for each in (*follow, *measured):
        each.start()
    if lease is not None:
        threads[0].step()  # whoever is free to lead does so before the first question
    for steady in threads:
        steady.start()
    thread.start()
    if gangs is not None:
        gangs.start(decides)
    try:
        yield server
    finally:
        for each in (*follow, *measured):
            each.stop()
        for steady in threads:
            steady.stop()
        state.freed.set()  # somebody waits for it
        if gangs is not None:
            gangs.stop()
        server.shutdown()
        server.server_close()
        thread.join()
        api.close()
