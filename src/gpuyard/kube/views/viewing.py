"""What people are shown of a cluster: its GPUs with who is on them, and why a pod waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.kube import names
from gpuyard.kube.amounts import BesideGpus, made_s, node_amounts, pod_amounts
from gpuyard.kube.books import GpuBooks, OpenGpu, books_of
from gpuyard.kube.choosing import cannot_ever, why_no_place, why_not
from gpuyard.kube.client.api import Api, ApiError, pod_path
from gpuyard.kube.judging import PodJudge
from gpuyard.kube.objects import GpuPod, YardGpu, read_node, read_pod
from gpuyard.kube.resources.training_task import TaskState
from gpuyard.kube.views.measured import MeasuredCluster, read_measured, told_events
from gpuyard.policies.multiplex.interference import InterferenceModel


@dataclass(frozen=True)
class ClusterView:
    """All nodes and all pods that ask for GPUs, at one moment, and what goes with GPUs."""

    books: GpuBooks
    pods: tuple[GpuPod, ...]
    nodes: Mapping[str, BesideGpus] = field(default_factory=dict)
    """What pods can have of nodes that say it."""
    cordoned: frozenset[str] = frozenset()
    """Nodes that take no further pods."""
    others: Mapping[str, BesideGpus] = field(default_factory=dict)
    """By node, what pods without GPUs have of it."""
    requests: Mapping[str, BesideGpus] = field(default_factory=dict)
    """By uid, what pods with GPUs, or that wait for them, ask for beside these."""
    created_s: Mapping[str, float] = field(default_factory=dict)
    """By uid, when these pods were made."""
    measured: MeasuredCluster = field(default_factory=MeasuredCluster)
    """What nodes say."""


def read_cluster(api: Api) -> ClusterView:
    """Ask the API server for all of it."""
    nodes = api.get("/api/v1/nodes").get("items") or []
    read = [(item, pod) for item, pod in _readable(api.get("/api/v1/pods").get("items") or []) if not pod.ended]
    ours = [(item, pod) for item, pod in read if pod.request]
    others: dict[str, BesideGpus] = {}
    for item, pod in read:
        if pod.node and not pod.request:
            others[pod.node] = others.get(pod.node, BesideGpus()).plus(pod_amounts(item))
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
        measured=read_measured(api),
    )  # fmt: skip


def _readable(items: Iterable[dict[str, Any]]) -> Iterable[tuple[dict[str, Any], GpuPod]]:
    for item in items:
        try:
            yield item, read_pod(item)
        except InputError:
            continue


def gpu_rows(view: ClusterView, model: InterferenceModel) -> list[dict[str, Any]]:
    """One row for each GPU: memory, who is on it, how much slower each is expected to be than alone, and how it is."""
    return [_row(view, each, model) for name in sorted(view.books.nodes) for each in view.books.open_gpus(name)]


def _row(view: ClusterView, one: OpenGpu, model: InterferenceModel) -> dict[str, Any]:
    here = [pod for pod in view.books.pods_on(one.node) if one.gpu.index in pod.devices]
    expected = model.slowdowns([pod.usage for pod in here], one.gpu.kind)
    said = view.measured.gpus.get((one.node, one.gpu.index))
    return {
        "node": one.node,
        "gpu": one.gpu.index,
        "kind": one.gpu.kind,
        "memory_gib": one.gpu.memory_gib,
        "free_gib": one.free_gib,
        "healthy": one.gpu.healthy,
        "phase": said.status.phase if said else None,
        "tasks": [
            _task_row(pod, one.gpu, slowdown.mean, view.measured) for pod, slowdown in zip(here, expected, strict=True)
        ],
        "disputes": [why for uid, why in view.books.disputes(one.node).items() if uid in {pod.uid for pod in here}],
    }


def _task_row(pod: GpuPod, gpu: YardGpu, expected: float, measured: MeasuredCluster) -> dict[str, Any]:
    task = measured.tasks.get(pod.uid)
    state = task.status if task else TaskState()
    return {
        "pod": pod.full_name,
        "model": pod.usage.model,
        "memory_gib": gpu.memory_gib if pod.request.whole else pod.request.memory_gib,
        "predicted_slowdown": round(expected, 3),
        "measured_slowdown": None if state.slowdown is None else round(state.slowdown, 3),
        "batch": state.batch.applied if state.batch else None,
        "step": state.step,
    }


def explain_pod(api: Api, namespace: str, name: str, judge: PodJudge) -> list[str]:
    """Say in words where a pod is, or why it is nowhere and what would help."""
    try:
        item = api.get(pod_path(namespace, name))
    except ApiError as error:
        if error.not_found:
            raise InputError("is not a pod of this cluster", field="pod", value=f"{namespace}/{name}") from None
        raise
    try:
        pod = read_pod(item)
    except InputError as error:
        raise error.located(f"pod {namespace}/{name}") from None
    view = read_cluster(api)
    if not pod.request:
        return [f"{pod.full_name} asks for no GPU of gpuyard ({', '.join(names.RESOURCES_OF_PODS)})."]
    if pod.ended:
        return [f"{pod.full_name} has ended: {_phase(item)}."]
    if pod.node:
        gpus = [line for index in pod.devices for line in view.measured.told_of_gpu(pod.node, index)]
        return [_where(pod, view), *view.measured.told_of_task(pod), *gpus, *told_events(api, pod)]
    waits = _why_it_waits(item, pod, view, judge)
    return [f"{pod.full_name} waits. It asks for {pod.request}.", *waits, *told_events(api, pod)]


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


def _refused(view: ClusterView, gpus: Sequence[OpenGpu], pod: GpuPod, known: InterferenceModel) -> Iterable[str]:
    """What would be expected on GPUs that have the memory, where a policy lets nobody in."""
    for each in gpus:
        if each.residents and each.free_gib >= pod.request.memory_gib:
            there = [one for one in view.books.pods_on(each.node) if each.gpu.index in one.devices]
            *theirs, mine = known.slowdowns([*(one.usage for one in there), pod.usage], each.gpu.kind)
            others = ", ".join(f"{one.full_name} {slow.mean:.0%}" for one, slow in zip(there, theirs, strict=True))
            yield f"  On GPU {each.gpu.index} its steps would take {mine.mean:.0%} longer than alone; {others}."


def _why_it_waits(item: dict[str, Any], pod: GpuPod, view: ClusterView, judge: PodJudge) -> list[str]:
    said, places = [], judge.places(pod)
    asked = (item.get("spec") or {}).get("schedulerName")
    if asked not in (names.SCHEDULER_NAME, names.IADEEP_SCHEDULER_NAME):
        said.append(f"It asks scheduler {asked!r}, not {names.SCHEDULER_NAME!r}: gpuyard is not asked where to put it.")
    gpus = {name: view.books.open_gpus(name) for name in sorted(view.books.nodes)}
    gpus = {name: found for name, found in gpus.items() if found}
    if not gpus:
        return [*said, "No node has GPUs of gpuyard. 'gpuyard kube status' shows which there are."]
    for name, found in gpus.items():
        why = why_no_place(found, places)
        said.append(f"node {name}: {why or 'has the memory; the scheduler has not bound it yet'}.")
        if why is not None and why_not(pod.request, found) is None:
            said += _refused(view, found, pod, judge.known)
    if all(cannot_ever(pod.request, found) for found in gpus.values()):
        said.append("No node could take it even if it were empty: ask for less, or add larger GPUs.")
    elif all(why_no_place(found, places) for found in gpus.values()):
        said.append("It will start when others end; or ask for less.")
    conditions = (item.get("status") or {}).get("conditions") or []
    told = [each.get("message") for each in conditions if each.get("type") == "PodScheduled" and each.get("message")]
    return said + [f"The scheduler says: {each}" for each in told]
