"""Which pod got which devices, as the kubelet itself says: what a device plugin is not told when it hands them out."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from gpuyard.core.errors import InputError
from gpuyard.core.message_tables import build_messages
from gpuyard.kube import names
from gpuyard.kube.device_ids import gpu_of
from gpuyard.kube.objects import GpuPod, GpuRequest

ANSWER_S = 5.0

LIST_PODS = "/v1.PodResourcesLister/List"

_PODS = """
ListPodResourcesRequest:
ListPodResourcesResponse: pod_resources=1 *PodResources
PodResources: name=1 string, namespace=2 string, containers=3 *ContainerResources
ContainerResources: name=1 string, devices=2 *ContainerDevices
ContainerDevices: resource_name=1 string, device_ids=2 *string
"""


class HeldDevices(NamedTuple):
    """What a container was given in one request."""

    resource: str
    ids: tuple[str, ...]
    """In alphabetical order."""


PodDevices = dict[str, list[HeldDevices]]
"""By `namespace/name`, what each container has, of those that have any."""


@lru_cache(maxsize=1)
def pod_messages() -> dict[str, Any]:
    """The classes of the messages about pods' devices by name."""
    return build_messages("v1", _PODS)


def list_pod_devices(socket: Path) -> PodDevices | None:
    """Ask the kubelet; None where it does not answer."""
    kinds = pod_messages()
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        call = channel.unary_unary(
            LIST_PODS,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=kinds["ListPodResourcesResponse"].FromString,
        )
        try:
            answer = call(kinds["ListPodResourcesRequest"](), timeout=ANSWER_S)
        except grpc.RpcError:
            return None
    found = {f"{pod.namespace}/{pod.name}": _ours(pod) for pod in answer.pod_resources}
    return {name: containers for name, containers in found.items() if containers}


def write_pod_devices(file: Path, devices: PodDevices) -> None:
    """Note what pods have: a kubelet is asked by its plugin alone, which knows when it may be."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    beside.write_text(json.dumps(devices))
    beside.replace(file)


def read_pod_devices(file: Path) -> PodDevices:
    """What was noted; nothing where nothing is there yet."""
    try:
        noted = json.loads(file.read_text())
        return {name: [HeldDevices(resource, tuple(ids)) for resource, ids in held] for name, held in noted.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _ours(pod: Any) -> list[HeldDevices]:
    found: dict[tuple[int, str], list[str]] = {}
    for number, container in enumerate(pod.containers):
        for devices in container.devices:  # several of one resource, where devices say to which memory they are near
            if devices.resource_name in names.RESOURCES_OF_PODS:
                found.setdefault((number, devices.resource_name), []).extend(devices.device_ids)
    return [HeldDevices(resource, tuple(sorted(ids))) for (_, resource), ids in found.items() if ids]


def gpus_of(containers: list[HeldDevices]) -> tuple[int, ...]:
    """The GPUs that a pod's containers are on."""
    try:
        return tuple(sorted({gpu_of(device) for held in containers for device in held.ids}))
    except InputError:
        return ()


def held_devices(devices: PodDevices) -> tuple[str, ...]:
    """All ids that anybody has; the same one twice where it was given out under two names of resources."""
    return tuple(each for containers in devices.values() for held in containers for each in held.ids)


def places(pods: Iterable[GpuPod], there: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """By uid, the GPUs of pods: those that have got devices are `there`; those that wait are where they will go.

    A kubelet does not say whose devices it asks for, so equal pods may change places: one has got the GPU that was
    chosen for another one, who then goes to a GPU that was chosen for one of them and that none of them has got.
    """
    found = dict[str, tuple[int, ...]]()
    equal: dict[tuple[GpuRequest, ...], list[GpuPod]] = {}
    for pod in sorted(pods, key=lambda pod: (pod.chosen_at, pod.uid)):
        equal.setdefault(pod.containers, []).append(pod)
    for alike in equal.values():
        found |= _places_of_equal(alike, {pod.uid: there.get(pod.uid, ()) for pod in alike})
    return found


def _places_of_equal(pods: list[GpuPod], there: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    left = Counter(pod.devices for pod in pods if pod.devices) - Counter(gpus for gpus in there.values() if gpus)
    found = {uid: gpus for uid, gpus in there.items() if gpus}
    waiting = [pod for pod in pods if pod.uid not in found]
    for pod in waiting:
        if left[pod.devices]:
            left[pod.devices] -= 1
            found[pod.uid] = pod.devices
    displaced = [pod for pod in waiting if pod.uid not in found and pod.devices]
    return found | {pod.uid: gpus for pod, gpus in zip(displaced, sorted(left.elements()), strict=False)}


def corrections(pods: Iterable[GpuPod], devices: PodDevices) -> list[tuple[GpuPod, tuple[int, ...]]]:
    """The pods that are, or will be, elsewhere than the books have them: the books are corrected, not the pod."""
    present = [pod for pod in pods if not pod.ended]
    found = places(present, {pod.uid: gpus_of(devices.get(pod.full_name, [])) for pod in present})
    return [(pod, found[pod.uid]) for pod in present if found.get(pod.uid, pod.devices) != pod.devices]
