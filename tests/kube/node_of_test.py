"""A node in virtual time: containers as kubelet and device plugin tell of them, tasks that train, and its daemon."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from tests.kube.api_server import ApiStandIn, api_server
from tests.kube.builders import gpus, node, pod
from tests.kube.kubelet import KubeletStandIn
from tests.sharing.test_task_tuning import SimulatedTask

from gpuyard.kube import names
from gpuyard.kube.client.api import Api, ApiError
from gpuyard.kube.install.installing import apply_all
from gpuyard.kube.node.labels import node_label
from gpuyard.kube.node.running import NodeDaemon, NodeSettings
from gpuyard.kube.pod_devices import list_pod_devices, write_pod_devices
from gpuyard.kube.resources.definitions import definitions
from gpuyard.kube.resources.shared_gpu import SHARED_GPUS, GpuState, GpuWanted
from gpuyard.kube.resources.training_task import TRAINING_TASKS, TrainingTask
from gpuyard.kube.task_records import TaskRecords

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
ALONE_S = 0.1
ROUNDS = count()


class DaemonNode:
    """Node n1 with two GPUs of 16 GiB, on which each step takes half as long again for each neighbour."""

    def __init__(self, folder: Path, server: ApiStandIn) -> None:
        self.folder, self.server, self.now = folder, server, 0.0
        (folder / "kubelet").mkdir()
        self.kubelet = KubeletStandIn(folder / "kubelet")
        self.records = TaskRecords(folder / "records")
        self.tasks: dict[str, SimulatedTask] = {}
        """By the names of their pods, those that train."""
        self.silent: set[str] = set()
        self.said: list[str] = []
        self.ahead_s = 0.0
        """By how much the clock on its wall is wrong."""
        self._parts = count()
        apply_all(server.api, definitions())
        server.add_node(node("n1", 16, 16))
        self.start()

    def start(self, api: Api | None = None) -> None:
        """Begin as a daemon does that was started again."""
        settings = NodeSettings(
            "n1", self.folder / "records", self.folder / "notes", self.folder / "tasks.sock",
            self.folder / "steps.sock", self.folder / "pods.json",
        )  # fmt: skip
        self.daemon = NodeDaemon(
            settings, gpus(16, 16), api or self.server.api, self.said.append,
            clock=lambda: self.now, wall=lambda: BEGAN + timedelta(seconds=self.now + self.ahead_s),
            new_round=lambda: f"round-{next(ROUNDS)}",
        )  # fmt: skip

    def admit(self, name: str, gpu: int = 0, *, whole: bool = False) -> str:
        """A pod whose container was given devices; returns the container's secret."""
        resource = names.WHOLE_GPUS if whole else names.MEMORY
        ids = [f"gpu{gpu}"] if whole else [f"gpu{gpu}-{next(self._parts)}" for _ in range(4)]
        secret = self.records.add(resource, ids)
        self.kubelet.taken.setdefault(resource, {}).update(dict.fromkeys(ids, f"{name}#0"))
        asks: dict[str, Any] = {"whole": 1} if whole else {"memory": 4}
        model = {names.MODEL: name.partition("-")[0], names.COMPUTE: "0.6", names.BANDWIDTH: "0.2"}
        self.server.add_pod(pod(name, **asks, node="n1", devices=str(gpu), phase="Running", annotations=model))
        return secret

    def train(self, name: str, gpu: int = 0, own: int = 64) -> str:
        """A pod that trains and lets its batch size be chosen; returns its secret."""
        secret = self.admit(name, gpu)
        self.tasks[name] = SimulatedTask(secret, self._step_s(gpu), own=own, gpu=gpu, gb=4.3)
        return secret

    def _step_s(self, gpu: int) -> Callable[[int], float]:
        def step_s(size: int) -> float:
            here = [each for each in self.tasks.values() if each.place.gpu == gpu]
            return ALONE_S * (1.0 + 0.5 * (len(here) - 1)) * (0.5 + 0.5 * size / 64)

        return step_s

    def end(self, name: str) -> None:
        """A pod is over: its connection ends, its devices are taken back, and it is removed."""
        task = self.tasks.pop(name)
        self.silent.discard(name)
        self.daemon.tuning.leave(task.place.gpu, task.name, self.now)
        for taken in self.kubelet.taken.values():
            for device in [each for each, holder in taken.items() if holder == f"{name}#0"]:
                del taken[device]
        self.server.remove(f"/api/v1/namespaces/lab/pods/{name}")
        (self.records.folder / f"{task.name}.json").unlink()

    def go_on(self, times: int = 1, each_s: float = 1.0) -> None:
        """Let time pass, by default seconds: each time everybody says something, and the daemon goes round."""
        for _ in range(times):
            self.now += each_s
            for name, task in self.tasks.items():
                if name not in self.silent:
                    place = self.daemon.tasks.place(task.name)
                    assert place is not None
                    task.beat(self.daemon.tuning, self.now)
            self.daemon.tuning.time_passed(self.now)
            with suppress(ApiError):
                self.daemon.following.list_now()
            self.device_plugin_looks()
            self.daemon.sync.step()

    def device_plugin_looks(self) -> None:
        """Note which pod has what."""
        listed = list_pod_devices(self.folder / "kubelet" / "kubelet.sock")
        assert listed is not None
        write_pod_devices(self.folder / "pods.json", listed)

    def gpu(self, number: int = 0) -> GpuState:
        """What the object of a GPU says."""
        return SHARED_GPUS.read(self.server.objects[SHARED_GPUS.path(f"n1-{number}")]).status

    def task(self, name: str) -> TrainingTask:
        """The object of a task."""
        return TRAINING_TASKS.read(self.server.objects[TRAINING_TASKS.path(name, "lab")])

    def why(self, number: int = 0, kind: str = "Tuning") -> tuple[str, str]:
        """Status and reason of a condition of a GPU."""
        (found,) = [each for each in self.gpu(number).conditions if each.type == kind]
        return found.status, found.reason

    def written(self, path: str) -> list[Any]:
        """What was written at a path."""
        return [body for method, where, body in self.server.requests if (method, where) == ("PATCH", path)]

    def told(self) -> str:
        """Everything that the API server was sent."""
        return json.dumps(self.server.requests)


def shared_gpu(node: str, index: int, memory: int = 16) -> dict[str, Any]:
    """The object of a GPU, as a daemon of n1 has left it."""
    key, _, value = node_label("n1").partition("=")
    thing = SHARED_GPUS.new(f"{node}-{index}", GpuWanted(node, index, "V100", memory), labels={key: value})
    return {**thing, "metadata": thing["metadata"] | {"uid": f"uid-{node}-{index}"}}


@contextmanager
def node_of_test(folder: Path) -> Iterator[DaemonNode]:
    """A node and its API server."""
    with api_server() as server:
        one = DaemonNode(folder, server)
        try:
            yield one
        finally:
            one.kubelet.stop()
