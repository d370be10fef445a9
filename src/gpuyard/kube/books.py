"""Who is on which GPU of the cluster: a ledger that follows what pods and nodes say.

Pods are the truth, so the books are the same after a restart. What does not fit beside what others have, or has no GPU
yet on its node, is kept as a dispute: nobody else is let onto such GPUs until it is settled.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from gpuyard.core.cluster import NodeKind
from gpuyard.core.errors import LedgerError
from gpuyard.core.grants import WHOLE, GrantState, Part
from gpuyard.core.ledger import Ledger
from gpuyard.core.units import GB_OF_GIB
from gpuyard.kube.objects import GpuPod, GpuRequest, YardGpu, YardNode
from gpuyard.policies.multiplex.effects import remember
from gpuyard.policies.multiplex.interference import Usage

MOST_COMPANIES = 65536


class PodOnGpu(NamedTuple):
    """A pod on a GPU, as far as it matters to others there."""

    usage: Usage
    memory_gib: int


@dataclass(frozen=True)
class OpenGpu:
    """A GPU as whoever places a pod sees it."""

    node: str
    gpu: YardGpu
    free_gib: int
    """0 where nobody may come, whatever is free: it is out of order, or who is there does not fit."""
    residents: tuple[PodOnGpu, ...]
    """Sorted; of one book, equal ones on GPUs of one kind are the same object, and on others another one, so that they
    are quickly told apart; only nobody is the same everywhere."""

    @property
    def empty(self) -> bool:
        """Whether a pod could have all of it."""
        return self.free_gib == self.gpu.memory_gib and not self.residents


class GpuBooks:
    """The books of all GPUs of a cluster."""

    def __init__(self) -> None:
        self._ledger = Ledger()
        self._nodes: dict[str, YardNode] = {}
        self._on_node: dict[str, dict[str, GpuPod]] = {}
        """By node and uid, the pods that are there, or for which a place there is reserved."""
        self._where: dict[str, str] = {}
        self._disputes: dict[str, dict[str, str]] = {}
        """By node and uid, why a pod that is there is not in the ledger."""
        self._promised: frozenset[tuple[str, int]] = frozenset()
        self._views: dict[str, tuple[OpenGpu, ...]] = {}
        self._companies: dict[tuple[tuple[PodOnGpu, ...], str, int], tuple[PodOnGpu, ...]] = {}
        """Companies that were on a GPU of a kind, each as one object."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of all nodes, those without GPUs too."""
        return tuple(self._nodes)

    def node(self, name: str) -> YardNode | None:
        """A node by its name."""
        return self._nodes.get(name)

    def pods_on(self, node: str) -> tuple[GpuPod, ...]:
        """The pods that hold GPUs of a node, or are disputed there."""
        return tuple(self._on_node.get(node, {}).values())

    def disputes(self, node: str) -> dict[str, str]:
        """By uid, why pods of a node are not in the ledger."""
        return dict(self._disputes.get(node, {}))

    def placed(self, uid: str) -> GpuPod | None:
        """A pod that is on a node, or for which a place is reserved."""
        node = self._where.get(uid)
        return None if node is None else self._on_node[node][uid]

    def set_node(self, node: YardNode) -> None:
        """A node has come, or has other GPUs now."""
        known = self._nodes.get(node.name)
        self._nodes[node.name] = node
        self._views.pop(node.name, None)
        if known is None or _amounts(known) != _amounts(node):
            self._release_all(node.name)
            for gpu in known.gpus if known else ():
                self._ledger.remove_node(_ledger_node(node.name, gpu.index))
            for gpu in node.gpus:
                kind = NodeKind(gpus=1, gpu_type=gpu.kind or "unknown", gpu_memory_gb=gpu.memory_gib * GB_OF_GIB)
                self._ledger.add_node(_ledger_node(node.name, gpu.index), kind)
            self._place_all(node.name)

    def remove_node(self, name: str) -> None:
        """A node has gone; its pods may still be told of."""
        if name in self._nodes:
            self.set_node(YardNode(name))
            del self._nodes[name]

    def set_pod(self, pod: GpuPod) -> None:
        """A pod is now as the API says. One that is not bound leaves a reservation for it as it is."""
        before = self._where.get(pod.uid)
        if pod.ended or not pod.request:
            self.remove_pod(pod.uid)
        elif pod.node:
            if before is not None and _place(self._on_node[before][pod.uid]) == _place(pod):
                self._on_node[before][pod.uid] = pod
                self._views.pop(before, None)
            else:
                self.remove_pod(pod.uid)
                self._enter(pod)

    def remove_pod(self, uid: str) -> None:
        """A pod has ended or gone, or what was reserved for it is given up."""
        node = self._where.pop(uid, None)
        if node is None:
            return
        if self._ledger.grant_of(uid) is not None:
            self._ledger.release(uid)
        del self._on_node[node][uid]
        self._views.pop(node, None)
        if self._disputes.get(node):
            self._release_all(node)
            self._place_all(node)

    def reserve(self, pod: GpuPod, node: str, devices: tuple[int, ...], chosen_at: int) -> GpuPod:
        """Keep a place for a pod that is about to be bound; LedgerError, and no change, if it is not free."""
        placed = replace(pod, node=node, devices=devices, chosen_at=chosen_at)
        if pod.uid in self._where:
            raise LedgerError(f"pod {pod.full_name} has a place already")
        self._ledger.grant(pod.uid, self._parts(placed), state=GrantState.RESERVED)
        self._note(placed)
        return placed

    def promise(self, gpus: frozenset[tuple[str, int]]) -> None:
        """From now on these GPUs, by node and number, are kept for gangs: nobody else is let onto one."""
        for node, _ in gpus ^ self._promised:
            self._views.pop(node, None)
        self._promised = gpus

    def open_gpus(self, node: str) -> tuple[OpenGpu, ...]:
        """The GPUs of a node, as whoever places a pod sees them."""
        found = self._views.get(node)
        if found is None:
            found = self._views[node] = tuple(self._open(node, gpu) for gpu in self._nodes[node].gpus)
        return found

    def holdings(self) -> dict[str, tuple[Part, ...]]:
        """What the ledger says that each pod holds, by uid."""
        return {str(grant.holder): grant.parts for grant in self._ledger.grants()}

    def check(self) -> None:
        """LedgerError where the ledger contradicts itself, or a GPU is over-committed."""
        self._ledger.check()

    def _open(self, node: str, gpu: YardGpu) -> OpenGpu:
        pods = self._on_node.get(node, {}).values()
        here = [pod for pod in pods if gpu.index in pod.devices]
        mix = tuple(sorted(on_gpu(pod, gpu) for pod in here))
        taken = sum(each.memory_gib for each in mix)
        closed = (node, gpu.index) in self._promised or self._closed(node, gpu)
        free = 0 if closed else max(gpu.memory_gib - taken, 0)
        company = mix, gpu.kind, gpu.memory_gib
        known = self._companies.get(company)
        return OpenGpu(
            node, gpu, free, remember(self._companies, company, mix, MOST_COMPANIES) if known is None else known
        )

    def is_closed(self, node: str, index: int) -> bool:
        """Whether nobody may come to a GPU, whatever is free there: it is out of order, or who is there disputes it."""
        return any(gpu.index == index and self._closed(node, gpu) for gpu in self._nodes[node].gpus)

    def _closed(self, node: str, gpu: YardGpu) -> bool:
        disputed = self._disputes.get(node)
        if not gpu.healthy or not disputed:
            return not gpu.healthy
        pods = self._on_node.get(node, {}).values()
        return any(pod.uid in disputed and (not pod.devices or gpu.index in pod.devices) for pod in pods)

    def _enter(self, pod: GpuPod) -> None:
        self._note(pod)
        if self._grant(pod) is not None:
            self._release_all(pod.node)
            self._place_all(pod.node)

    def _note(self, pod: GpuPod) -> None:
        self._on_node.setdefault(pod.node, {})[pod.uid] = pod
        self._where[pod.uid] = pod.node
        self._views.pop(pod.node, None)

    def _grant(self, pod: GpuPod) -> str | None:
        """Let the ledger have what a pod says that it has; why not, if not."""
        if not pod.devices:
            return "nobody has said yet which GPU it has"
        try:
            self._ledger.grant(pod.uid, self._parts(pod))
        except LedgerError as error:
            return str(error)
        return None

    def _release_all(self, node: str) -> None:
        for uid in self._on_node.get(node, {}):
            if self._ledger.grant_of(uid) is not None:
                self._ledger.release(uid)
        self._disputes.pop(node, None)
        self._views.pop(node, None)

    def _place_all(self, node: str) -> None:
        """Grant what fits in the order in which GPUs were chosen; who came too late is disputed, every time."""
        there = sorted(self._on_node.get(node, {}).values(), key=lambda pod: (pod.chosen_at, pod.uid))
        found = {pod.uid: why for pod in there if (why := self._grant(pod)) is not None}
        if found:
            self._disputes[node] = found
        self._views.pop(node, None)

    def _parts(self, pod: GpuPod) -> tuple[Part, ...]:
        node = self._nodes.get(pod.node, YardNode(pod.node))
        memory = {gpu.index: gpu.memory_gib for gpu in node.gpus}
        return tuple(_part(pod.node, index, pod.request, memory.get(index, 0)) for index in pod.devices)


def _part(node: str, index: int, request: GpuRequest, memory_gib: int) -> Part:
    """A whole GPU with all of its memory, or memory of one that is shared."""
    taken = memory_gib if request.whole else request.memory_gib
    return Part(_ledger_node(node, index), 0, WHOLE if request.whole else 0, taken * GB_OF_GIB)


def on_gpu(pod: GpuPod, gpu: YardGpu) -> PodOnGpu:
    """A pod on one of its GPUs."""
    return PodOnGpu(pod.usage, gpu.memory_gib if pod.request.whole else pod.request.memory_gib)


def _ledger_node(node: str, index: int) -> str:
    """Each GPU is a node of the ledger's, as those of one machine may be of several kinds."""
    return f"{node}/{index}"


def _place(pod: GpuPod) -> tuple[str, tuple[int, ...], GpuRequest, int]:
    return pod.node, pod.devices, pod.request, pod.chosen_at


def _amounts(node: YardNode) -> tuple[tuple[int, str, int], ...]:
    return tuple((gpu.index, gpu.kind, gpu.memory_gib) for gpu in node.gpus)


def books_of(nodes: Iterable[YardNode], pods: Iterable[GpuPod]) -> GpuBooks:
    """The books as they follow from what the API lists."""
    books = GpuBooks()
    for node in nodes:
        books.set_node(node)
    for pod in pods:
        books.set_pod(pod)
    return books
