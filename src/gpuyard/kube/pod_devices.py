"""Which pod got which devices, as the kubelet itself says: what a device plugin is not told when it hands them out."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from gpuyard.core.errors import InputError
from gpuyard.core.message_tables import build_messages
from gpuyard.kube import names
from gpuyard.kube.device_ids import gpu_of
from gpuyard.kube.objects import GpuPod

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


def list_pod_devices(socket: Path) -> PodDevices:
    """Ask the kubelet; nothing where it does not answer."""
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
            return {}
    found = {f"{pod.namespace}/{pod.name}": _ours(pod) for pod in answer.pod_resources}
    return {name: containers for name, containers in found.items() if containers}


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


def corrections(pods: list[GpuPod], devices: PodDevices) -> dict[str, tuple[int, ...]]:
    """By uid, the GPUs of pods that are elsewhere than the books have them: the books are corrected, not the pod."""
    found = {pod.uid: gpus_of(devices.get(pod.full_name, [])) for pod in pods if not pod.ended}
    booked = {pod.uid: pod.devices for pod in pods}
    return {uid: there for uid, there in found.items() if there and there != booked[uid]}
