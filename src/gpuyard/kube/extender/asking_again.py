"""Lets the scheduler ask again about pods that wait, as soon as there is room for one of them.

A scheduler asks again when it sees a pod end; that the books have heard of it by then nobody promises. And of a GPU
that is mended it hears nothing at all. So pods that were refused are remembered, and marked when they would fit: a
scheduler looks again at a pod that was changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence

from gpuyard.core.errors import InputError
from gpuyard.kube import names
from gpuyard.kube.books import OpenGpu
from gpuyard.kube.choosing import why_no_place
from gpuyard.kube.client.api import Api, ApiError, pod_path
from gpuyard.kube.extender.cluster_state import ClusterState
from gpuyard.kube.guarded import Guarded
from gpuyard.kube.judging import PodJudge, PodPlaces

LOOK_S = 0.25
AGAIN_S = 5.0
"""Look at everything so often even if nothing was told."""


class AskingAgain:
    """Marks pods for which there is room now."""

    def __init__(
        self,
        api: Api,
        state: ClusterState,
        judge: PodJudge,
        leads: Callable[[], bool],
        say: Callable[[str], None],
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._api, self._state, self._judge = api, state, judge
        self._leads, self._say, self._now_ns = leads, say, now_ns
        self._over = threading.Event()

    def start(self) -> None:
        """Begin, in a thread of its own."""
        threading.Thread(target=self._go_on, name="asking again", daemon=True).start()

    def stop(self) -> None:
        """End."""
        self._over.set()
        self._state.freed.set()

    def step(self) -> list[str]:
        """Mark those who would fit now, each once until it is refused again; returns their names."""
        if not self._leads():
            return []
        with self._state.lock:
            open_gpus = [self._state.books.open_gpus(node) for node in self._state.books.nodes]
            fitting = [
                places.pod
                for places in [self._judge.places(each.pod) for each in self._state.refused.values()]
                if self._fits(places, open_gpus)
            ]
            for pod in fitting:
                del self._state.refused[pod.uid]
        for pod in fitting:
            change = {"metadata": {"uid": pod.uid, "labels": {names.ASKED_AGAIN: str(self._now_ns())}}}
            try:
                self._api.patch(pod_path(pod.namespace, pod.name), change)
            except ApiError as error:  # whoever is gone needs nothing, and the scheduler asks again by itself in time
                self._say(f"pod {pod.full_name} cannot be marked: {error}")
        return [pod.full_name for pod in fitting]

    def _fits(self, places: PodPlaces, nodes: Iterable[Sequence[OpenGpu]]) -> bool:
        try:
            return any(why_no_place(gpus, places) is None for gpus in nodes)
        except InputError as error:  # of a policy that fails: the scheduler is to hear of it
            self._say(f"pod {places.pod.full_name} cannot be judged: {error}")
            return True

    def _go_on(self) -> None:
        step = Guarded("pods that wait are not looked at", self.step, self._say)
        while not self._over.is_set():
            self._state.freed.wait(AGAIN_S)
            self._state.freed.clear()
            step()
            self._over.wait(LOOK_S)
