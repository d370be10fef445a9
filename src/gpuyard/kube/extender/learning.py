"""Learns from what the nodes measure: the leader hears the GPUs and writes down what it learnt, replicas read it.

Nobody who asks waits for any of this: a thread works out the model, and the judge takes it up between two pods.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.kube.client.api import Api, ApiError
from gpuyard.kube.guarded import Guarded
from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.judging import PodJudge
from gpuyard.kube.learnt import CONFIG_MAP, OBSERVATIONS, UNREADABLE, Learnt, read_learnt, write_learnt
from gpuyard.kube.resources.shared_gpu import SHARED_GPUS, SharedGpu
from gpuyard.policies.multiplex.interference import InterferenceModel

LOOK_S = 5.0
"""Between two looks at what is new: so often a judge learns at most."""
NOT_FOUND, CONFLICT = 404, 409


class SharedGpuList:
    """Told by the list of SharedGPUs: how each is now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gpus: dict[str, SharedGpu] = {}

    def replace(self, items: list[dict[str, Any]]) -> None:
        """All of them."""
        found = {each.name: each for each in map(SHARED_GPUS.read, items)}
        with self._lock:
            self._gpus = found

    def change(self, item: dict[str, Any], *, gone: bool) -> None:
        """One of them."""
        gpu = SHARED_GPUS.read(item)
        with self._lock:
            self._gpus.pop(gpu.name, None)
            if not gone:
                self._gpus[gpu.name] = gpu

    def all(self) -> list[SharedGpu]:
        """As they are now."""
        with self._lock:
            return list(self._gpus.values())


class Learning:
    """What the cluster has learnt, kept in a ConfigMap of a namespace."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        judge: PodJudge,
        gpus: SharedGpuList,
        leads: Callable[[], bool],
        say: Callable[[str], None],
    ) -> None:
        """Without a namespace nothing is kept; what the judge knows already is known beside what is learnt."""
        self._api, self._judge, self._gpus, self._leads, self._say = api, judge, gpus, leads, say
        self._namespace, self._folder = namespace, f"/api/v1/namespaces/{namespace}/configmaps"
        self._before = judge.known
        self._learnt = Learnt()
        self._version: str | None = None
        """Of the ConfigMap whose content is known; None: unknown, empty: there is none."""
        self._unreadable = ""
        self._said: str | None = None
        self._over = threading.Event()

    @property
    def mixes(self) -> int:
        """Of how many mixes something was learnt."""
        return len(self._learnt.mixes)

    def start(self) -> None:
        """Learn from a thread of its own until `stop`."""
        threading.Thread(target=self._go_on, name="learning", daemon=True).start()

    def stop(self) -> None:
        """End."""
        self._over.set()

    def step(self) -> None:
        """Take up what is new, and write it down where this replica leads; what cannot be done is tried again."""
        try:
            leads = self._leads()
            if self._namespace and (not leads or self._version is None):
                self._read()
            if leads:
                self._hear()
        except ApiError as error:
            self._version = None  # somebody else may have written it
            if error.status != CONFLICT:
                self._tell(f"what was learnt of mixes cannot be kept: {error}")
        else:
            self._said = None

    def _go_on(self) -> None:
        step = Guarded("nothing is learnt of mixes", self.step, self._say)
        while not self._over.wait(LOOK_S):
            step()

    def _hear(self) -> None:
        learnt = self._learnt
        for gpu in self._gpus.all():
            learnt = learnt.hear(gpu.name, gpu.status.observations)
        if learnt is not self._learnt:
            if self._namespace:
                self._write(learnt)
            self._know(learnt)

    def _know(self, learnt: Learnt) -> None:
        news, self._learnt = learnt.observations != self._learnt.observations, learnt
        if news:
            self._judge.learn(InterferenceModel((*self._before.observations, *learnt.observations)))

    def _read(self) -> None:
        """Know what is written down. What nobody can read is kept beside what is learnt from now on."""
        try:
            found = self._api.get(f"{self._folder}/{CONFIG_MAP}")
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            self._version = ""
            return
        version = str(found["metadata"]["resourceVersion"])
        if version == self._version:
            return
        data = found.get("data") or {}
        try:
            learnt = read_learnt(data)
        except InputError as error:
            self._unreadable = str(data.get(OBSERVATIONS, ""))
            self._say(f"what was learnt of mixes cannot be used, and is kept as {UNREADABLE}: {error}")
        else:
            self._unreadable = str(data.get(UNREADABLE, ""))
            self._know(learnt)
        self._version = version

    def _write(self, learnt: Learnt) -> None:
        metadata = {"name": CONFIG_MAP, "namespace": self._namespace}
        content: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "data": write_learnt(learnt, self._unreadable)}
        if self._version:
            stated = {**metadata, "resourceVersion": self._version}
            made = self._api.put(f"{self._folder}/{CONFIG_MAP}", {**content, "metadata": stated})
        else:
            made = self._api.post(self._folder, {**content, "metadata": metadata})
        self._version = str(made["metadata"]["resourceVersion"])

    def _tell(self, what: str) -> None:
        """Say what is wrong, once."""
        if what != self._said:
            self._say(what)
        self._said = what
