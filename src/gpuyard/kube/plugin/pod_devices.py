"""Which pod got which devices, as the kubelet itself says: what a device plugin is not told when it hands them out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc

from gpuyard.core.errors import InputError
from gpuyard.kube import names
from gpuyard.kube.device_ids import gpu_of
from gpuyard.kube.objects import GpuPod
from gpuyard.kube.plugin.messages import LIST_PODS, pod_messages

ANSWER_S = 5.0

PodDevices = dict[str, list[list[str]]]
"""By `namespace/name`, the ids that each container has, of those that have any."""


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


def _ours(pod: Any) -> list[list[str]]:
    each = (
        [device for devices in container.devices if devices.resource_name in names.RESOURCES_OF_PODS
         for device in devices.device_ids]
        for container in pod.containers
    )  # fmt: skip
    return [ids for ids in each if ids]


def gpus_of(containers: list[list[str]]) -> tuple[int, ...]:
    """The GPUs that a pod's containers are on."""
    try:
        return tuple(sorted({gpu_of(device) for ids in containers for device in ids}))
    except InputError:
        return ()


def corrections(pods: list[GpuPod], devices: PodDevices) -> dict[str, tuple[int, ...]]:
    """By uid, the GPUs of pods that are elsewhere than the books have them: the books are corrected, not the pod."""
    found = {pod.uid: gpus_of(devices.get(pod.full_name, [])) for pod in pods if not pod.ended}
    booked = {pod.uid: pod.devices for pod in pods}
    return {uid: there for uid, there in found.items() if there and there != booked[uid]}
