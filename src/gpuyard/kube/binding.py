"""The request that binds a pod to a node, and says in the same step which GPUs it has there."""

from __future__ import annotations

from collections.abc import Mapping

from gpuyard.kube import names
from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.objects import GpuPod


def binding_of(pod: GpuPod, also: Mapping[str, str] | None = None) -> JsonObject:
    """A Binding for a pod with its place; `also` are further annotations."""
    devices = ",".join(map(str, pod.devices))
    chosen = {names.DEVICES: devices, names.CHOSEN_AT: str(pod.chosen_at), **(also or {})}
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "annotations": chosen if pod.devices else {},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": pod.node},
    }
