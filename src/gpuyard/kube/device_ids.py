"""Ids of devices that say what they are: `gpu2-17` is one GiB of GPU 2, `gpu2` all of it. And which ones a pod gets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from gpuyard.core.errors import InputError
from gpuyard.kube import names
from gpuyard.kube.objects import GpuPod, YardGpu


def device_ids(resource: str, gpu: YardGpu) -> list[str]:
    """All ids of a GPU under a resource."""
    if resource == names.WHOLE_GPUS:
        return [f"gpu{gpu.index}"]
    return [f"gpu{gpu.index}-{part}" for part in range(gpu.memory_gib)]


def gpu_of(device: str) -> int:
    """The number of the GPU that an id belongs to."""
    found = re.fullmatch(r"gpu(\d{1,4})(-\d{1,6})?", device)
    if found is None:
        raise InputError("is not the id of a device of gpuyard", value=device)
    return int(found[1])


def by_gpu(devices: Iterable[str]) -> dict[int, list[str]]:
    """Ids by the GPU that they belong to, in the order of their numbers."""
    found: dict[int, list[str]] = {}
    for device in sorted(devices, key=lambda each: [int(number) for number in re.findall(r"\d+", each)]):
        found.setdefault(gpu_of(device), []).append(device)
    return found


def room_left(gpus: Iterable[YardGpu], held: Iterable[str]) -> dict[int, int]:
    """The GiB of each GPU that nobody has, under whichever resource: a kubelet counts each resource by itself."""
    room = {gpu.index: gpu.memory_gib for gpu in gpus}
    for gpu, ids in by_gpu(held).items():
        taken = sum(room.get(gpu, 0) if each == f"gpu{gpu}" else 1 for each in ids)
        room[gpu] = max(room.get(gpu, 0) - taken, 0)
    return room


def preferred(available: Sequence[str], must: Sequence[str], size: int, wanted: Sequence[int]) -> list[str]:
    """So many ids of memory on one GPU: where some are already, else the one that is wanted, else where they fit best.

    Where no GPU has enough, fewer: the kubelet adds others, and `Allocate` refuses them.
    """
    groups = by_gpu({*available, *must})
    if must:
        wanted = [gpu_of(must[0])]
    enough = [gpu for gpu in wanted if len(groups.get(gpu, ())) >= size]
    fitting = sorted((len(ids), gpu) for gpu, ids in groups.items() if len(ids) >= size)
    if not enough and not fitting:
        return list(must)
    chosen = enough[0] if enough else fitting[0][1]
    return [*must, *(each for each in groups[chosen] if each not in must)][:size]


def preferred_whole(available: Sequence[str], must: Sequence[str], size: int, wanted: Sequence[int]) -> list[str]:
    """So many whole GPUs, those that are wanted first."""
    groups = by_gpu({*available, *must})
    order = [*map(gpu_of, must), *(gpu for gpu in wanted if gpu in groups), *groups]
    return [groups[gpu][0] for gpu in dict.fromkeys(order)][:size]


def next_pod(size: int, pods: Iterable[GpuPod], served: Mapping[str, int], whole: bool) -> GpuPod | None:
    """The pod whose container a kubelet asks for, though it does not say so.

    It admits one pod after the other, and asks for one container after the other: first comes a pod that has got
    devices for some of its containers, then the one whose GPU was chosen first.
    """

    def wants(pod: GpuPod) -> bool:
        asks = [each.whole if whole else each.memory_gib for each in pod.containers]
        left = [each for each in asks if each][served.get(pod.uid, 0) :]
        return bool(left) and left[0] == size

    matching = [pod for pod in pods if pod.pending and pod.devices and wants(pod)]
    return min(matching, key=lambda pod: (not served.get(pod.uid), pod.chosen_at, pod.uid), default=None)
