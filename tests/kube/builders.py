"""Pods and nodes as the API shows them: a test names only what matters to it."""

from __future__ import annotations

from typing import Any

from gpuyard.kube import names
from gpuyard.kube.objects import YardGpu, write_gpus

Manifest = dict[str, Any]


def pod(
    name: str = "train-1",
    *,
    memory: int = 0,
    whole: int = 0,
    uid: str = "",
    node: str = "",
    devices: str = "",
    chosen_at: int = 1,
    phase: str = "Pending",
    resource: str = names.MEMORY,
    annotations: dict[str, str] | None = None,
    containers: list[int] | None = None,
) -> Manifest:
    """A pod; `containers` gives each of several the memory it asks for."""
    chosen = {names.DEVICES: devices, names.CHOSEN_AT: str(chosen_at)} if devices else {}
    each = [
        {"name": f"c{number}", "resources": _limits(resource, amount)} for number, amount in enumerate(containers or [])
    ]
    one = [{"name": "main", "resources": {"limits": {**_limits(resource, memory)["limits"], **_whole(whole)}}}]
    return {
        "metadata": {
            "name": name,
            "namespace": "lab",
            "uid": uid or f"uid-{name}",
            "annotations": {**chosen, **(annotations or {})},
        },
        "spec": {"schedulerName": names.SCHEDULER_NAME, "nodeName": node or None, "containers": each or one},
        "status": {"phase": phase},
    }


def _limits(resource: str, amount: int) -> dict[str, dict[str, str]]:
    return {"limits": {resource: str(amount)} if amount else {}}


def _whole(count: int) -> dict[str, str]:
    return {names.WHOLE_GPUS: str(count)} if count else {}


def gpus(*memory: int, kind: str = "V100", out_of_order: tuple[int, ...] = ()) -> tuple[YardGpu, ...]:
    """GPUs with so many GiB each."""
    return tuple(YardGpu(index, kind, gib, index not in out_of_order) for index, gib in enumerate(memory))


def node(name: str = "n1", *memory: int, out_of_order: tuple[int, ...] = ()) -> Manifest:
    """A node whose GPUs our device plugin has told of."""
    annotations = {names.GPUS_OF_NODE: write_gpus(gpus(*memory, out_of_order=out_of_order))} if memory else {}
    return {"metadata": {"name": name, "uid": f"uid-{name}", "annotations": annotations}, "status": {}}
