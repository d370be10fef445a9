"""The cluster as an extender knows it: books that follow the API server, and places that it has promised meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from gpuyard.core.errors import InputError
from gpuyard.kube.books import GpuBooks
from gpuyard.kube.objects import GpuPod, YardNode, read_node, read_pod, says_nonsense


class WaitCause(StrEnum):
    """Why no node has room for a pod, by what would help."""

    MEMORY = "memory"
    """Memory of one GPU is lacking."""
    WHOLE_GPUS = "whole-gpus"
    """GPUs that nobody uses are lacking."""
    POLICY = "policy"
    """There is memory somewhere, and the policy refuses."""
    NEVER = "never"
    """It asks for more than any node has."""


class RefusedPod(NamedTuple):
    """A pod that waits."""

    pod: GpuPod
    because: WaitCause


class ClusterState:
    """What is known of nodes and pods. Whoever reads or writes `books` holds `lock`."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.lock = threading.RLock()
        self.books = GpuBooks()
        self.pods: dict[str, GpuPod] = {}
        """By uid, those that ask for GPUs, as the API last showed them."""
        self.undecided: dict[str, float] = {}
        """By uid, since when nobody knows whether a binding was carried out."""
        self.refused: dict[str, RefusedPod] = {}
        """By uid, pods that wait, for which no node had room when the scheduler asked."""
        self.freed = threading.Event()
        """Set when there may be more room than before."""
        self.say = say
        self.of_nodes, self.of_pods = NodeList(self), PodList(self)

    def learn(self, pod: GpuPod) -> None:
        """A pod is as the API shows it."""
        with self.lock:
            if pod.request and not pod.ended:
                self.pods[pod.uid] = pod
            else:
                self.pods.pop(pod.uid, None)
            if pod.node or pod.ended:
                self.undecided.pop(pod.uid, None)
                self.refused.pop(pod.uid, None)
            self.books.set_pod(pod)
        self.freed.set()

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        with self.lock:
            self.pods.pop(uid, None)
            self.undecided.pop(uid, None)
            self.refused.pop(uid, None)
            self.books.remove_pod(uid)
        self.freed.set()

    def refuse(self, pod: GpuPod, because: WaitCause) -> None:
        """No node has room for a pod that waits."""
        with self.lock:
            self.refused[pod.uid] = RefusedPod(pod, because)
        self.freed.set()  # there may be more room than when the answer was worked out

    def understood(self, item: dict[str, Any]) -> GpuPod | None:
        """A pod; None, and a word about it, if it cannot be understood: it holds up nobody else."""
        try:
            return read_pod(item)
        except InputError as error:
            self.say(f"pod {(item.get('metadata') or {}).get('name')} is left out: {error}")
            return None


class NodeList:
    """Told by the list of nodes."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._nonsense: set[str] = set()
        """Nodes of whose GPUs nobody can make sense, which was said."""

    def replace(self, items: list[dict[str, Any]]) -> None:
        """All nodes."""
        nodes = {node.name: node for node in map(self._read, items)}
        self._nonsense &= nodes.keys()
        with self._state.lock:
            for name in set(self._state.books.nodes) - set(nodes):
                self._state.books.remove_node(name)
            for node in nodes.values():
                self._state.books.set_node(node)
        self._state.freed.set()

    def change(self, item: dict[str, Any], *, gone: bool) -> None:
        """One node."""
        node = self._read(item)
        with self._state.lock:
            if gone:
                self._state.books.remove_node(node.name)
            elif self._state.books.node(node.name) != node:  # most changes are a node's heartbeat
                self._state.books.set_node(node)
                self._state.freed.set()

    def _read(self, item: dict[str, Any]) -> YardNode:
        node = read_node(item)
        if not says_nonsense(item, node):
            self._nonsense.discard(node.name)
        elif node.name not in self._nonsense:
            self._nonsense.add(node.name)
            self._state.say(f"the GPUs of node {node.name} are left out: what is written of them makes no sense")
        return node


class PodList:
    """Told by the list of pods."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def replace(self, items: list[dict[str, Any]]) -> None:
        """All pods. One that was not seen before, and for which a place was promised since, is not in this list yet."""
        pods = [pod for pod in map(self._state.understood, items) if pod is not None]
        with self._state.lock:
            for uid in set(self._state.pods) - {pod.uid for pod in pods}:
                self._state.forget(uid)
            for pod in pods:
                self._state.learn(pod)

    def change(self, item: dict[str, Any], *, gone: bool) -> None:
        """One pod."""
        pod = self._state.understood(item)
        if pod is not None:
            self._state.forget(pod.uid) if gone else self._state.learn(pod)
