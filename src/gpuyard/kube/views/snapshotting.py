"""A cluster as policies see it: GPUs, who holds what of them, and who waits."""

from __future__ import annotations

from collections.abc import Container

from gpuyard.core.cluster import NodeKind
from gpuyard.core.units import GB_OF_GIB
from gpuyard.core.workload import Job
from gpuyard.kube.objects import GpuPod, YardGpu
from gpuyard.kube.views.viewing import ClusterView
from gpuyard.policies.facts import Facts
from gpuyard.profiles.gpus import gpu_kind

UNKNOWN_KIND, UNMEASURED = "unknown", "generic"


def cluster_facts(view: ClusterView, now_s: float, models: Container[str]) -> Facts:
    """The facts of a cluster. Nodes with GPUs of several kinds are one node for each kind.

    Tasks whose model is not among `models` count as of the model that nobody has measured.
    """
    facts = Facts(now_s)
    places: dict[tuple[str, int], tuple[str, int]] = {}
    for name in view.books.nodes:
        node = view.books.node(name)
        groups: dict[tuple[str, int], list[YardGpu]] = {}
        for gpu in node.gpus if node else ():
            groups.setdefault((gpu.kind or UNKNOWN_KIND, gpu.memory_gib), []).append(gpu)
        for number, ((kind, memory), gpus) in enumerate(groups.items()):
            part = name if number == 0 else f"{name}+{number}"
            facts.add_node(part, _kind(kind, memory, len(gpus)))
            places.update({(name, gpu.index): (part, position) for position, gpu in enumerate(gpus)})
    for pod in sorted(view.pods, key=lambda each: (each.chosen_at, each.full_name)):
        _add_pod(facts, pod, places, view, models)
    return facts


def _kind(kind: str, memory_gib: int, count: int) -> NodeKind:
    """What pods get beside GPUs is Kubernetes' affair: it is not in a snapshot yet."""
    plain = NodeKind(gpus=count, gpu_type=kind, gpu_memory_gb=memory_gib * GB_OF_GIB)
    return plain.with_gpu(gpu_kind(kind)) if kind != UNKNOWN_KIND else plain


def _add_pod(
    facts: Facts,
    pod: GpuPod,
    places: dict[tuple[str, int], tuple[str, int]],
    view: ClusterView,
    models: Container[str],
) -> None:
    """Who has a GPU holds a share of nothing but its memory: all who are there compete for the rest."""
    model = pod.usage.model if pod.usage.model in models else UNMEASURED
    held = [places[pod.node, index] for index in pod.devices if (pod.node, index) in places] if pod.node else []
    if held and pod.uid not in view.books.disputes(pod.node):
        together = len([each for each in view.books.pods_on(pod.node) if set(each.devices) & set(pod.devices)])
        share = 1.0 if pod.request.whole else 1.0 / together
        memory = 0.0 if pod.request.whole else pod.request.memory_gib * GB_OF_GIB
        facts.add_job(_job(pod, model, share))
        facts.hold(pod.full_name, held, share=int(share * 1000) / 1000, gpu_memory_gb=memory)
    elif not pod.node:
        facts.add_job(_job(pod, model, 1.0))


def _job(pod: GpuPod, model: str, share: float) -> Job:
    gpus = pod.request.whole or (1 if share == 1.0 else int(share * 1000) / 1000)
    return Job(pod.full_name, 0.0, gpus, model, iterations=float("nan"))
