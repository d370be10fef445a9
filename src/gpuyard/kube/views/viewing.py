"""What people are shown of a cluster: its GPUs with who is on them, and why a pod waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.kube import names
from gpuyard.kube.amounts import Amounts, made_s, node_amounts, pod_amounts
from gpuyard.kube.books import GpuBooks, OpenGpu, books_of
from gpuyard.kube.choosing import cannot_ever, why_not
from gpuyard.kube.client.api import Api, ApiError, pod_path
from gpuyard.kube.objects import GpuPod, read_node, read_pod
from gpuyard.policies.multiplex.interference import InterferenceModel

NOT_FOUND = 404


@dataclass(frozen=True)
class ClusterView:
    """All nodes and all pods that ask for GPUs, at one moment, and what goes with GPUs."""

    books: GpuBooks
    pods: tuple[GpuPod, ...]
    nodes: Mapping[str, Amounts] = field(default_factory=dict)
    """What pods can have of nodes that say it."""
    cordoned: frozenset[str] = frozenset()
    """Nodes that take no further pods."""
    others: Mapping[str, Amounts] = field(default_factory=dict)
    """By node, what pods without GPUs have of it."""
    requests: Mapping[str, Amounts] = field(default_factory=dict)
    """By uid, what pods with GPUs, or that wait for them, ask for beside these."""
    created_s: Mapping[str, float] = field(default_factory=dict)
    """By uid, when these pods were made."""


def read_cluster(api: Api) -> ClusterView:
    """Ask the API server for all of it."""
    nodes = api.get("/api/v1/nodes").get("items") or []
    read = [(item, pod) for item, pod in _readable(api.get("/api/v1/pods").get("items") or []) if not pod.ended]
    ours = [(item, pod) for item, pod in read if pod.request]
    others: dict[str, Amounts] = {}
    for item, pod in read:
        if pod.node and not pod.request:
            others[pod.node] = others.get(pod.node, Amounts()).plus(pod_amounts(item))
    pods = tuple(pod for _, pod in ours)
    allocatable = {str(each["metadata"]["name"]): node_amounts(each) for each in nodes}
    return ClusterView(
        books_of([read_node(each) for each in nodes], pods), pods,
        nodes={name: amounts for name, amounts in allocatable.items() if amounts is not None},
        cordoned=frozenset(
            str(each["metadata"]["name"]) for each in nodes if (each.get("spec") or {}).get("unschedulable")
        ),
        others=others,
        requests={pod.uid: pod_amounts(item) for item, pod in ours},
        created_s={pod.uid: at for item, pod in ours if (at := made_s(item["metadata"])) is not None},
    )  # fmt: skip


def _readable(items: Iterable[dict[str, Any]]) -> Iterable[tuple[dict[str, Any], GpuPod]]:
    for item in items:
        try:
            yield item, read_pod(item)
        except InputError:
            continue


def gpu_rows(view: ClusterView, model: InterferenceModel) -> list[dict[str, Any]]:
    """One row for each GPU: memory, who is on it, and how much slower each is expected to be than alone."""
    return [_row(view.books, each, model) for name in sorted(view.books.nodes) for each in view.books.open_gpus(name)]


def _row(books: GpuBooks, one: OpenGpu, model: InterferenceModel) -> dict[str, Any]:
    here = [pod for pod in books.pods_on(one.node) if one.gpu.index in pod.devices]
    mix = [pod.usage for pod in here]
    expected = model.slowdowns(mix, one.gpu.kind)
    return {
        "node": one.node,
        "gpu": one.gpu.index,
        "kind": one.gpu.kind,
        "memory_gib": one.gpu.memory_gib,
        "free_gib": one.free_gib,
        "healthy": one.gpu.healthy,
        "tasks": [
            {
                "pod": pod.full_name,
                "model": pod.usage.model,
                "memory_gib": one.gpu.memory_gib if pod.request.whole else pod.request.memory_gib,
                "predicted_slowdown": round(slowdown.mean, 3),
            }
            for pod, slowdown in zip(here, expected, strict=True)
        ],
        "disputes": [why for uid, why in books.disputes(one.node).items() if uid in {pod.uid for pod in here}],
    }


def explain_pod(api: Api, namespace: str, name: str) -> list[str]:
    """Say in words where a pod is, or why it is nowhere and what would help."""
    try:
        item = api.get(pod_path(namespace, name))
    except ApiError as error:
        if error.status == NOT_FOUND:
            raise InputError("is not a pod of this cluster", field="pod", value=f"{namespace}/{name}") from None
        raise
    pod, view = read_pod(item), read_cluster(api)
    if not pod.request:
        return [f"{pod.full_name} asks for no GPU of gpuyard ({', '.join(names.RESOURCES_OF_PODS)})."]
    if pod.ended:
        return [f"{pod.full_name} has ended: {_phase(item)}."]
    if pod.node:
        return [_where(pod, view)]
    return [f"{pod.full_name} waits. It asks for {pod.request}.", *_why_it_waits(item, pod, view)]


def _phase(item: dict[str, Any]) -> str:
    status = item.get("status") or {}
    return ": ".join(str(each) for each in (status.get("phase"), status.get("reason"), status.get("message")) if each)


def _where(pod: GpuPod, view: ClusterView) -> str:
    dispute = view.books.disputes(pod.node).get(pod.uid)
    if dispute is not None:
        return f"{pod.full_name} is on node {pod.node}, and does not fit there: {dispute}."
    gpus = ", ".join(map(str, pod.devices))
    others = [each.full_name for each in view.books.pods_on(pod.node) if set(each.devices) & set(pod.devices)]
    company = ", ".join(sorted(set(others) - {pod.full_name})) or "nobody"
    return f"{pod.full_name} has GPU {gpus} of node {pod.node} ({pod.request}), in company of: {company}."


def _why_it_waits(item: dict[str, Any], pod: GpuPod, view: ClusterView) -> list[str]:
    said = []
    asked = (item.get("spec") or {}).get("schedulerName")
    if asked not in (names.SCHEDULER_NAME, names.IADEEP_SCHEDULER_NAME):
        said.append(f"It asks scheduler {asked!r}, not {names.SCHEDULER_NAME!r}: gpuyard is not asked where to put it.")
    gpus = {name: view.books.open_gpus(name) for name in sorted(view.books.nodes)}
    gpus = {name: found for name, found in gpus.items() if found}
    if not gpus:
        return [*said, "No node has GPUs of gpuyard. 'gpuyard kube status' shows which there are."]
    for name, found in gpus.items():
        said.append(
            f"node {name}: {why_not(pod.request, found) or 'has the memory; the scheduler has not bound it yet'}."
        )
    if all(cannot_ever(pod.request, found) for found in gpus.values()):
        said.append("No node could take it even if it were empty: ask for less, or add larger GPUs.")
    elif all(why_not(pod.request, found) for found in gpus.values()):
        said.append("It will start when others end; or ask for less.")
    conditions = (item.get("status") or {}).get("conditions") or []
    told = [each.get("message") for each in conditions if each.get("type") == "PodScheduled" and each.get("message")]
    return said + [f"The scheduler says: {each}" for each in told]
