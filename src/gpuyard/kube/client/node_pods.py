"""The pods of one node that ask for GPUs, as the API server has them."""

from __future__ import annotations

from gpuyard.core.errors import InputError
from gpuyard.kube.client.api import Api
from gpuyard.kube.objects import GpuPod, read_pod


def pods_of_node(api: Api, node: str) -> list[GpuPod]:
    """List them; ApiError if that cannot be had. Those that nobody understands are left out."""
    answer = api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")
    found = []
    for item in answer.get("items") or []:
        try:
            found.append(read_pod(item))
        except InputError:
            continue
    return [pod for pod in found if pod.request and pod.node == node]
