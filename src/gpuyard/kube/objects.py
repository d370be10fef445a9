"""From the JSON of pods and nodes to what matters of them. What is wrong in an object never stops anybody else's."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.kube import names
from gpuyard.policies.multiplex.interference import Usage

_SUFFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
USUAL_COMPUTE, USUAL_BANDWIDTH = 0.5, 0.25
"""What a task is taken to keep busy of a GPU when it says nothing."""
MOST_GPUS_OF_NODE = 64
MOST_NUMBER, MOST_GIB = 9999, 2**20
"""A GPU whose number or memory is said to be larger is none."""


@dataclass(frozen=True)
class GpuRequest:
    """What a pod asks for: memory of one GPU that it shares, or GPUs of its own."""

    memory_gib: int = 0
    whole: int = 0

    def __bool__(self) -> bool:
        return bool(self.memory_gib or self.whole)

    def __str__(self) -> str:
        parts = [f"{self.whole} whole GPUs"] if self.whole else []
        return " and ".join([*parts, f"{self.memory_gib} GiB of one GPU"] if self.memory_gib else parts) or "no GPU"


@dataclass(frozen=True)
class GpuPod:
    """A pod that asks for GPUs."""

    uid: str
    namespace: str
    name: str
    request: GpuRequest
    usage: Usage
    containers: tuple[GpuRequest, ...] = ()
    """What each container asks for, those that initialise first, in the order in which a kubelet serves them."""
    node: str = ""
    """Empty until it is bound."""
    devices: tuple[int, ...] = ()
    """The numbers of its GPUs; none until somebody has chosen them."""
    chosen_at: int = 0
    ended: bool = False
    pending: bool = True

    @property
    def full_name(self) -> str:
        """Its name with its namespace."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class YardGpu:
    """One GPU of a node."""

    index: int
    kind: str
    """The key of its kind; empty where nobody says."""
    memory_gib: int
    healthy: bool = True


@dataclass(frozen=True)
class YardNode:
    """A node and its GPUs."""

    name: str
    gpus: tuple[YardGpu, ...] = ()


def read_pod(pod: Mapping[str, Any]) -> GpuPod:
    """Read what matters of a pod; InputError if its metadata or what it asks for cannot be understood."""
    try:
        metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
        first = [_request(each) for each in spec.get("initContainers") or ()]
        then = [_request(each) for each in spec.get("containers") or ()]
        annotations = metadata.get("annotations") or {}
        return GpuPod(
            uid=str(metadata["uid"]),
            namespace=str(metadata.get("namespace", "default")),
            name=str(metadata["name"]),
            request=_together(first, then),
            usage=_usage(metadata, annotations),
            containers=tuple(each for each in (*first, *then) if each),
            node=str(spec.get("nodeName") or ""),
            devices=_devices(annotations),
            chosen_at=_chosen_at(annotations),
            ended=status.get("phase") in ("Succeeded", "Failed"),
            pending=status.get("phase") in (None, "", "Pending"),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError("is not a pod that can be understood", field="Pod", value=repr(error)) from None


def _request(container: Mapping[str, Any]) -> GpuRequest:
    resources = container.get("resources") or {}
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    memory = sum(_amount(name, amounts.get(name, 0)) for name in names.MEMORY_RESOURCES)
    return GpuRequest(memory, _amount(names.WHOLE_GPUS, amounts.get(names.WHOLE_GPUS, 0)))


def _amount(name: str, written: Any) -> int:
    """A quantity as Kubernetes writes it; those of devices are whole numbers."""
    found = re.fullmatch(r"(\d{1,15})([kMG]i?|Ki|)", str(written))
    if found is None or found[2] not in _SUFFIXES:
        raise InputError("is not a whole number", field=name, value=written)
    return int(found[1]) * _SUFFIXES[found[2]]


def _together(first: list[GpuRequest], then: list[GpuRequest]) -> GpuRequest:
    """What all containers need: those that run together the sum, those that initialise one after the other the most."""
    memory = max([sum(each.memory_gib for each in then), *(each.memory_gib for each in first)])
    return GpuRequest(memory, max([sum(each.whole for each in then), *(each.whole for each in first)]))


def _usage(metadata: Mapping[str, Any], annotations: Mapping[str, Any]) -> Usage:
    labels = metadata.get("labels") or {}
    model = annotations.get(names.MODEL) or labels.get("app") or str(metadata["name"]).partition("-")[0]
    compute = _part(annotations.get(names.COMPUTE), USUAL_COMPUTE)
    return Usage(str(model), compute, _part(annotations.get(names.BANDWIDTH), USUAL_BANDWIDTH))


def _part(written: Any, usual: float) -> float:
    """A part of a GPU; what is usual where none is written, or nonsense."""
    try:
        value = float(written)
    except (TypeError, ValueError):
        return usual
    return value if 0 <= value <= 1 else usual


def _devices(annotations: Mapping[str, Any]) -> tuple[int, ...]:
    written = str(annotations.get(names.DEVICES) or annotations.get(names.THEIR_INDEX) or "")
    found = written.split(",")
    good = all(re.fullmatch(r"\d{1,4}", each) for each in found) and len(set(found)) == len(found)
    return tuple(sorted(map(int, found))) if good else ()


def _chosen_at(annotations: Mapping[str, Any]) -> int:
    written = str(annotations.get(names.CHOSEN_AT) or annotations.get(names.THEIR_CHOSEN_AT) or "")
    return int(written) if re.fullmatch(r"\d{1,20}", written) else 0


def read_node(node: Mapping[str, Any]) -> YardNode:
    """Read the GPUs of a node: as our device plugin wrote them, else as IADeep's did, else none."""
    metadata, status = node.get("metadata") or {}, node.get("status") or {}
    annotations, name = metadata.get("annotations") or {}, str(metadata.get("name", ""))
    for found in (_our_gpus, _their_gpus):
        gpus = found(annotations)
        if gpus:
            return YardNode(name, gpus)
    return YardNode(name, _counted_gpus(status.get("capacity") or {}))


def _our_gpus(annotations: Mapping[str, Any]) -> tuple[YardGpu, ...]:
    found = _listed(annotations.get(names.GPUS_OF_NODE))
    try:
        gpus = [
            YardGpu(int(each["index"]), str(each["kind"]), int(each["memory_gib"]), bool(each["healthy"]))
            for each in found
        ]
    except (KeyError, TypeError, ValueError, OverflowError):
        return ()
    return _in_order(gpus)


def _their_gpus(annotations: Mapping[str, Any]) -> tuple[YardGpu, ...]:
    found = _listed(annotations.get(names.THEIR_GPU_INFO))
    try:
        return _in_order([YardGpu(int(each["UID"]), "", int(each["MemCapacity"])) for each in found])
    except (KeyError, TypeError, ValueError, OverflowError):
        return ()


def _counted_gpus(capacity: Mapping[str, Any]) -> tuple[YardGpu, ...]:
    """Equal GPUs, where no more is known than how many there are, and how much memory they have together."""
    try:
        count = _amount(names.THEIR_COUNT, capacity.get(names.THEIR_COUNT, 0))
        total = _amount(names.THEIR_MEMORY, capacity.get(names.THEIR_MEMORY, 0))
    except InputError:
        return ()
    if count > MOST_GPUS_OF_NODE:
        return ()
    return _in_order([YardGpu(index, "", total // count) for index in range(count)])


def says_nonsense(node: Mapping[str, Any], read: YardNode) -> bool:
    """Whether somebody wrote down GPUs of a node, and none could be read."""
    annotations = (node.get("metadata") or {}).get("annotations") or {}
    return not read.gpus and any(
        annotations.get(key) not in (None, "", "[]") for key in (names.GPUS_OF_NODE, names.THEIR_GPU_INFO)
    )


def _in_order(gpus: list[YardGpu]) -> tuple[YardGpu, ...]:
    """GPUs by their numbers; none at all if what is said of them makes no sense."""
    numbers = {each.index for each in gpus}
    sound = len(numbers) == len(gpus) <= MOST_GPUS_OF_NODE and all(
        0 <= each.index <= MOST_NUMBER and 0 < each.memory_gib <= MOST_GIB for each in gpus
    )
    return tuple(sorted(gpus, key=lambda each: each.index)) if sound else ()


def _listed(written: Any) -> list[Any]:
    try:
        found = json.loads(written or "[]")
    except (TypeError, ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def whole_gib(memory_bytes: int) -> int:
    """The whole GiB of a GPU, which is what pods can ask for."""
    return memory_bytes // 2**30


def write_gpus(gpus: tuple[YardGpu, ...]) -> str:
    """The annotation by which `read_node` finds these GPUs again."""
    return json.dumps([vars(each) for each in gpus], separators=(",", ":"))
