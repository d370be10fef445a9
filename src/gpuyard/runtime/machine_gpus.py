"""The GPUs that this machine really has: the cluster that they are, and by what names processes ask for theirs."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.profiles.gpus import gpu_key
from gpuyard.runtime.cpu_sets import usable_cpus
from gpuyard.sharing.machine import look_at_gpus

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class MachineGpu:
    """One GPU of this machine."""

    visible_as: str
    """As CUDA_VISIBLE_DEVICES names it: its number or, where the environment names it otherwise, that."""
    gpu_type: str
    memory_gb: float


def numbering(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """By which variable all processes number GPUs alike: as nvidia-smi does, unless the environment says otherwise."""
    return {"CUDA_DEVICE_ORDER": environment.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID")}


def gpus_of_machine(environment: Mapping[str, str] = os.environ) -> list[MachineGpu]:
    """All that CUDA can use here, under what the environment says; InputError where there is none."""
    found = look_at_gpus(environment=dict(environment) | numbering(environment))
    count = len(found["names"])
    listed = environment[VISIBLE].split(",") if VISIBLE in environment else map(str, range(count))
    named = [each.strip() for each in listed][:count]
    every = zip(named, found["names"], found["memory_bytes"], strict=True)
    return [MachineGpu(visible, gpu_key(name), size / 1e9) for visible, name, size in every]


def cluster_of_machine(gpus: Sequence[MachineGpu]) -> str:
    """In the short form: a node for each type of GPU, with its part of the machine's CPUs and memory."""
    cpus = len(usable_cpus())
    memory_gb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    counts = Counter((each.gpu_type, each.memory_gb) for each in gpus)
    return "+".join(
        f"1x{count}:cpus={max(cpus * count // len(gpus), 1)},memory={memory_gb * count / len(gpus):.3f}GB,"
        f"gpu_memory={size_gb!r}GB,type={gpu_type}"
        for (gpu_type, size_gb), count in counts.items()
    )


def gpus_of_nodes(cluster: Cluster, gpus: Sequence[MachineGpu]) -> dict[str, list[str]]:
    """The machine's GPUs among nodes that are all on it; InputError where a cluster has more of a type."""
    of_type = defaultdict(list)
    for each in gpus:
        of_type[each.gpu_type].append(each.visible_as)
    wanted: Counter[str] = Counter()
    for number in cluster.node_kind:
        wanted[cluster.kinds[number].gpu_type] += cluster.kinds[number].gpus
    for gpu_type, count in wanted.items():
        if count > len(of_type[gpu_type]):
            there = ", ".join(f"{len(found)} of type {name}" for name, found in of_type.items() if found)
            rule = f"has {count} GPUs of type {gpu_type}, and this machine {there}"
            raise InputError(rule, field="cluster", value=str(cluster), hint="Leave --cluster out to use what is there")
    left = {gpu_type: iter(found) for gpu_type, found in of_type.items()}
    kinds = (cluster.kinds[number] for number in cluster.node_kind)
    return {
        name: list(islice(left.get(kind.gpu_type, iter(())), kind.gpus))
        for name, kind in zip(cluster.node_names, kinds, strict=True)
    }
