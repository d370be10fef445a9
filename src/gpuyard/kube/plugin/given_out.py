"""Who has which devices: as the kubelet said when it was last asked, and what it was given since.

A kubelet must not be asked while it waits for its plugin: it then works out anew which devices are in use, without
those that it is about to give out. That of Kubernetes 1.20 may end by that, and any may give a device out twice.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gpuyard.kube.objects import GpuPod
from gpuyard.kube.pod_devices import PodDevices, gpus_of, held_devices, places

QUIET_S = 0.2
"""So long after an answer, a kubelet has noted it."""


@dataclass(frozen=True)
class PodsHere:
    """The pods of this node that ask for GPUs, with the GPUs that they are on, or go to."""

    pods: Sequence[GpuPod] = ()
    served: dict[str, int] = field(default_factory=dict)
    """By uid, the number of containers of pods that have got devices for all of them."""
    guessed: dict[str, int] = field(default_factory=dict)
    """By uid, for how many of its containers a pod has probably got devices since: an equal one may have got them."""
    held: Sequence[str] = ()
    """All ids that they have; one twice where it was given out under two names of resources."""


@dataclass(frozen=True)
class _Given:
    """Devices for one container, of the pod that it probably was: of equal ones it may be another."""

    at: float
    pod: GpuPod | None
    devices: tuple[str, ...]


class GivenOut:
    """The devices of a node; for several threads."""

    def __init__(self, quiet_s: float = QUIET_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet_s, self._clock = quiet_s, clock
        self._lock = threading.Lock()
        self._listed: PodDevices = {}
        self._since: list[_Given] = []
        self._heard_at = clock() - quiet_s

    def heard(self) -> None:
        """The kubelet asks, or was answered."""
        self._heard_at = self._clock()

    def give(self, pod: GpuPod | None, devices: Sequence[str]) -> None:
        """These go to a container, probably of this pod."""
        with self._lock:
            self._since.append(_Given(self._clock(), pod, tuple(devices)))

    @property
    def awaits(self) -> bool:
        """Whether something was given of which the kubelet has not said yet whose it is."""
        return bool(self._since)

    def look(self, ask: Callable[[], PodDevices | None]) -> PodDevices | None:
        """What the kubelet says now; None if it does not answer, or may be waiting for this plugin."""
        began = self._clock()
        if began - self._heard_at < self._quiet_s:
            return None
        listed = ask()
        if listed is not None:
            with self._lock:
                self._listed, self._since = listed, [each for each in self._since if each.at >= began]
        return listed

    def here(self, pods: Sequence[GpuPod] | None) -> PodsHere:
        """How it is for these pods, which have not ended; None: nobody knows the pods, so all devices count as held."""
        with self._lock:
            listed, since = self._listed, list(self._since)
        if pods is None:
            return PodsHere(held=[*held_devices(listed), *(each for given in since for each in given.devices)])
        present = {pod.uid for pod in pods}
        since = [given for given in since if given.pod is None or given.pod.uid in present]
        there = {pod.uid: gpus_of(listed.get(pod.full_name, [])) for pod in pods}
        served = {pod.uid: len(pod.containers) for pod in pods if there[pod.uid]}
        guessed = Counter(given.pod.uid for given in since if given.pod is not None and not there[given.pod.uid])
        where = places(pods, there)
        names = {pod.full_name for pod in pods}
        return PodsHere(
            [replace(pod, devices=where.get(pod.uid, pod.devices)) for pod in pods],
            served,
            dict(guessed),
            [
                *held_devices({name: ids for name, ids in listed.items() if name in names}),
                *(each for given in since for each in given.devices),
            ],
        )
