"""A cluster as policies see it: nodes, who holds what of them, who waits, and what is known of those who share GPUs."""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

from gpuyard.core.cluster import NodeKind
from gpuyard.core.units import GB_OF_GIB
from gpuyard.core.workload import Job
from gpuyard.kube.amounts import BesideGpus
from gpuyard.kube.objects import GpuPod, YardNode
from gpuyard.kube.one_kind import of_one_kind
from gpuyard.kube.views.viewing import ClusterView
from gpuyard.policies.facts import NOBODY, Facts, JobFact, earlier
from gpuyard.policies.multiplex.interference import InterferenceModel
from gpuyard.policies.sharing_facts import NOTHING_KNOWN, SharingFacts, TaskUse

UNMEASURED = "generic"
CLOSED = "closed"
"""Whoever holds what is left of GPUs that take nobody."""


@dataclass(frozen=True)
class Gang:
    """Pods that are one job: they are in a snapshot as that job, which holds what they hold."""

    fact: JobFact
    """How far it is, in seconds since 1970; what it holds counts while none of its pods is bound."""
    pods: frozenset[str] = frozenset()
    """Their full names."""


def gangs_of(jobs: Mapping[Hashable, JobFact], pods: Mapping[str, frozenset[str]]) -> list[Gang]:
    """The gangs among the jobs of a world, with the names of their pods; strangers are none."""
    ours = [each for each in jobs.values() if each.job.tenant != NOBODY]
    return [Gang(each, pods.get(str(each.job.job_id), frozenset())) for each in ours]


def cluster_facts(
    view: ClusterView,
    now_s: float,
    models: Container[str],
    *,
    policy: str = "",
    known: InterferenceModel = NOTHING_KNOWN.known,
    gangs: Sequence[Gang] = (),
) -> Facts:
    """The facts of a cluster; time begins with its oldest pod or gang.

    Nodes with GPUs of several kinds are one node for each kind. Tasks whose model is not among `models` count as of the
    model that nobody has measured.
    """
    since_s = min([now_s, *view.created_s.values(), *(each.fact.job.arrival_s for each in gangs)])
    facts = Facts(now_s - since_s)
    writer = _Writer(facts, view, since_s, models)
    for name in view.books.nodes:
        writer.add_node(name)
    in_gangs = {name for gang in gangs for name in gang.pods}
    for pod in sorted(view.pods, key=lambda each: (each.chosen_at, each.full_name)):
        if pod.full_name not in in_gangs:
            writer.add_pod(pod)
    for gang in gangs:
        writer.add_gang(gang)
    for name in view.books.nodes:
        writer.close(name)
    facts.sharing = SharingFacts(policy, writer.uses, known)
    return facts


class _Writer:
    """Writes down one cluster."""

    def __init__(self, facts: Facts, view: ClusterView, since_s: float, models: Container[str]) -> None:
        self._facts, self._view, self._books, self._models = facts, view, view.books, models
        self._since_s = since_s
        self._places: dict[tuple[str, int], tuple[str, int]] = {}
        """Where each GPU is in the snapshot, whose nodes have GPUs of one kind."""
        self.uses: dict[Any, TaskUse] = {}

    def add_node(self, name: str) -> None:
        """One node for each kind of its GPUs; what nobody holds beside them goes with them in equal parts."""
        parts = of_one_kind(self._books.node(name) or YardNode(name))
        held = [self._held(name, {gpu.index for gpu in each.gpus}) for each in parts]
        together = BesideGpus()
        for own in held:
            together = together.plus(own)
        has = self._view.nodes.get(name)
        free = None if has is None else has.beyond(together)
        others = self._view.others.get(name, BesideGpus())
        for each, own in zip(parts, held, strict=True):
            left = _usual(len(each.gpus)) if free is None else free.times(each.part)
            taken = others.times(each.part).at_most(left)
            self._facts.add_node(each.name, each.node_kind(own.plus(left)), taken=_nonzero(taken))
            self._places.update({(name, gpu.index): (each.name, at) for at, gpu in enumerate(each.gpus)})

    def _held(self, node: str, indices: set[int]) -> BesideGpus:
        """What pods hold beside these GPUs of a node."""
        held = BesideGpus()
        for pod in self._placed(node):
            asks = self._view.requests.get(pod.uid, BesideGpus())
            held = held.plus(asks.times(len(indices & set(pod.devices)) / len(pod.devices)))
        return held

    def _placed(self, node: str) -> list[GpuPod]:
        """The pods that are on GPUs of a node and do not dispute them."""
        disputed = self._books.disputes(node)
        return [pod for pod in self._books.pods_on(node) if pod.devices and pod.uid not in disputed]

    def add_pod(self, pod: GpuPod) -> None:
        """A pod is a job: it runs, or waits; one that is disputed where it is closes its GPUs."""
        if pod.node and (not self._where(pod) or pod.uid in self._books.disputes(pod.node)):
            return
        asks = self._view.requests.get(pod.uid, BesideGpus())
        model = pod.usage.model if pod.usage.model in self._models else UNMEASURED
        created = self._view.created_s.get(pod.uid, self._since_s) - self._since_s
        job = Job(
            pod.full_name, created, pod.request.whole or 1, model, cpus=asks.cpus or nan,
            memory_gb=asks.memory_gb or nan, tenant=pod.namespace,
        )  # fmt: skip
        self._facts.add_job(job, **self._since(pod, created))
        if not pod.request.whole:
            self.uses[pod.full_name] = TaskUse(pod.usage, pod.request.memory_gib * GB_OF_GIB)
        if pod.node:
            memory = pod.request.memory_gib * GB_OF_GIB
            self._facts.hold(
                pod.full_name, self._where(pod), share=self._share(pod), gpu_memory_gb=memory,
                cpus=asks.cpus, memory_gb=asks.memory_gb,
            )  # fmt: skip

    def _since(self, pod: GpuPod, created: float) -> dict[str, float]:
        """Since when a pod has its GPUs, if anybody noted it and it makes sense."""
        at = pod.chosen_at / 1e9 - self._since_s
        if not pod.node or not created <= at <= self._facts.now_s:
            return {}
        return {"held_since_s": at, "works_from_s": at, "attained_s": self._facts.now_s - at}

    def _where(self, pod: GpuPod) -> list[tuple[str, int]]:
        found = [self._places.get((pod.node, index)) for index in pod.devices]
        return [place for place in found if place is not None] if all(found) else []

    def _share(self, pod: GpuPod) -> float:
        """Who has a GPU holds a share of nothing but its memory: all who are there compete for the rest."""
        return 1.0 if pod.request.whole else _part_of(self._company(pod.node, pod.devices[0]))

    def _company(self, node: str, index: int) -> int:
        """How many share a GPU; one more where it takes nobody else."""
        here = sum(index in pod.devices for pod in self._placed(node))
        return here + self._is_closed(node, index)

    def _is_closed(self, node: str, index: int) -> bool:
        """Whether nobody may come to a GPU, whatever is free there: it is out of order, disputed, or its node is."""
        return self._books.is_closed(node, index) or node in self._view.cordoned

    def add_gang(self, gang: Gang) -> None:
        """The job of several pods."""
        placed = [pod for pod in self._view.pods if pod.full_name in gang.pods and self._where(pod)]
        fact = earlier(gang.fact, self._since_s)
        self._facts.jobs[fact.job.job_id] = fact
        if placed:
            asks = BesideGpus()
            for pod in placed:
                asks = asks.plus(self._view.requests.get(pod.uid, BesideGpus()))
            where = [place for pod in placed for place in self._where(pod)]
            self._facts.hold(fact.job.job_id, where, cpus=asks.cpus, memory_gb=asks.memory_gb)

    def close(self, node: str) -> None:
        """Let somebody hold what is left of GPUs that take nobody."""
        for each in self._books.open_gpus(node):
            index = each.gpu.index
            whole = any(pod.request.whole and index in pod.devices for pod in self._placed(node))
            if self._is_closed(node, index) and not whole:
                share = _part_of(self._company(node, index))
                self._facts.occupy(f"{CLOSED} {node}/{index}", [self._places[node, index]], share=share)


def _part_of(company: int) -> float:
    return int(1000 / company) / 1000


def _usual(gpus: int) -> BesideGpus:
    """What a node that does not say what it has is taken to have beside its GPUs."""
    usual = NodeKind()
    return BesideGpus(usual.cpus, usual.memory_gb).times(gpus / usual.gpus)


def _nonzero(amounts: BesideGpus) -> dict[str, float]:
    return {name: amount for name, amount in amounts._asdict().items() if amount}
