"""The node daemon: its sockets, its tuner, and its way to the API server, put together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex

from gpuyard.core.steady_thread import SteadyThread
from gpuyard.core.units import GB_OF_GIB
from gpuyard.kube.client.api import Api
from gpuyard.kube.client.following import Following
from gpuyard.kube.node.cluster_sync import STEP_S, ClusterSync
from gpuyard.kube.node.gpu_objects import GpuObjects, time_of_day
from gpuyard.kube.node.labels import node_label
from gpuyard.kube.node.node_tasks import NodeTasks
from gpuyard.kube.node.status_writer import StatusWriter
from gpuyard.kube.node.steps_service import StepsService
from gpuyard.kube.node.task_notes import TaskNotes
from gpuyard.kube.node.task_objects import TaskObjects
from gpuyard.kube.objects import YardGpu
from gpuyard.kube.resources.training_task import TRAINING_TASKS
from gpuyard.kube.task_records import TaskRecords
from gpuyard.sharing.mix_samples import StepMean
from gpuyard.sharing.task_daemon import TaskDaemon
from gpuyard.sharing.task_tuning import NodeTuning


@dataclass(frozen=True)
class NodeSettings:
    """Where a daemon finds what it needs."""

    node: str
    records: Path
    """What the device plugin notes of containers."""
    notes: Path
    """What the daemon itself keeps of them."""
    batch_socket: Path
    steps_socket: Path
    pod_devices: Path
    """What the device plugin notes of pods: which has what."""


class NodeDaemon:
    """All parts of a node's daemon, each of which can be driven by itself."""

    def __init__(
        self,
        settings: NodeSettings,
        gpus: Sequence[YardGpu],
        api: Api,
        say: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        new_round: Callable[[], str] = lambda: token_hex(4),
    ) -> None:
        self.settings, self.lock = settings, threading.RLock()
        memory_gb = {gpu.index: gpu.memory_gib * GB_OF_GIB for gpu in gpus}
        alone: dict[str, StepMean] = {}
        self.tasks = NodeTasks(TaskRecords(settings.records), TaskNotes(settings.notes), alone, self.lock)
        self.tuning = NodeTuning(memory_gb, new_round, company=self.tasks.company, alone=alone)
        self.steps = StepsService(self.tasks, clock)
        stamp, writer = time_of_day(clock, wall), StatusWriter(api, clock)
        self.task_objects = TaskObjects(api, settings.node, self.tasks, writer, stamp)
        self.gpu_objects = GpuObjects(api, settings.node, gpus, writer, stamp)
        self.sync = ClusterSync(
            api, settings.node, settings.pod_devices, self.tasks, self.tuning, self.task_objects, self.gpu_objects,
            clock, say,
        )  # fmt: skip
        self.following = Following(
            api, TRAINING_TASKS.folder(), self.task_objects, say, labelSelector=node_label(settings.node)
        )
        self._rounds = SteadyThread("API server", self.sync.step, STEP_S, say, clock)
        self._clock, self._say = clock, say

    @property
    def trouble(self) -> str:
        """What keeps this daemon from its work; empty if it goes round."""
        return self._rounds.trouble() or ("nobody follows tasks" if self.following.gone else "")

    @contextmanager
    def running(self) -> Iterator[TaskDaemon]:
        """Serve tasks and speak with the API server from threads, while the caller lets the daemon run."""
        self.tasks.look()
        with TaskDaemon(
            self.settings.batch_socket, self.tuning, self.tasks.place, self._clock, lock=self.lock, say=self._say
        ) as daemon:  # first: it sees whether another daemon lives
            server = self.steps.serve(self.settings.steps_socket)
            self.following.start()
            self._rounds.start()
            try:
                yield daemon
            finally:
                self.following.stop()
                self._rounds.stop()
                server.stop(0).wait()
                self._rounds.join()
