"""Between the daemon of a node and the API server: what tasks are to do comes in, how everything is goes out.

Whatever the API server does, tasks go on as they were told; what could not be said is said later.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpuyard.kube.client.api import Api, ApiError
from gpuyard.kube.client.node_pods import pods_of_node
from gpuyard.kube.node.gpu_objects import GpuObjects
from gpuyard.kube.node.node_tasks import NodeTasks
from gpuyard.kube.node.task_objects import TaskObjects
from gpuyard.kube.pod_devices import read_pod_devices
from gpuyard.sharing.task_tuning import NodeTuning

STEP_S = 0.5
SAY_AGAIN_S = 300.0
PODS_S, SOON_S = 10.0, 2.0
"""How often pods are listed: where all are known, and where one is not."""


class ClusterSync:
    """Goes round: which containers there are, of which pods, what is wanted of them, and how they are."""

    def __init__(
        self,
        api: Api,
        node: str,
        pod_devices: Path,
        tasks: NodeTasks,
        tuning: NodeTuning,
        task_objects: TaskObjects,
        gpu_objects: GpuObjects,
        clock: Callable[[], float],
        say: Callable[[str], None],
    ) -> None:
        self._api, self._node, self._pod_devices = api, node, pod_devices
        self._tasks, self._tuning, self._clock, self._say = tasks, tuning, clock, say
        self._task_objects, self._gpu_objects = task_objects, gpu_objects
        self._listed_at: float | None = None
        self._complaint = "", 0.0

    def step(self) -> None:
        """Go round once. What one of the parts cannot do does not keep the others from doing theirs."""
        complaints, unforeseen = [], list[Exception]()
        for part in (
            self._tasks.look,
            self._look_at_pods,
            self._task_objects.find,
            lambda: self._task_objects.say(self._tuning, self._clock()),
            lambda: self._gpu_objects.step(self._tasks, self._tuning, self._clock()),
        ):
            try:
                part()
            except ApiError as error:
                complaints.append(str(error))
            except OSError as error:
                complaints.append(f"this node fails: {error}")
            except Exception as error:  # it is for whoever runs this, once the others have had their turn
                unforeseen.append(error)
        complaint = "; ".join(dict.fromkeys(complaints))
        if complaint:
            self._complain(complaint)
        if unforeseen:
            raise unforeseen[0]

    def _complain(self, text: str) -> None:
        """Say what is wrong; the same again only after some time."""
        said, at = self._complaint
        if text != said or self._clock() - at >= SAY_AGAIN_S:
            self._complaint = text, self._clock()
            self._say(f"not everything is told and kept now, tasks go on: {text}")

    def _look_at_pods(self) -> None:
        unknown, now = self._tasks.unknown(), self._clock()
        if self._listed_at is not None and now - self._listed_at < (SOON_S if unknown else PODS_S):
            return
        self._listed_at = now
        pods = pods_of_node(self._api, self._node)
        if unknown:
            self._tasks.resolve(read_pod_devices(self._pod_devices), {pod.full_name: pod for pod in pods})
        self._tasks.pods_are(pods)
