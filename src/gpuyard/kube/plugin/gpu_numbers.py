"""Which number each GPU of a node has: kept in a file, as pods and the scheduler know GPUs by their numbers.

A GPU that is lost keeps its number, and is out of order until it comes back or the file is removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from gpuyard.core.errors import InputError
from gpuyard.kube.objects import MOST_GPUS_OF_NODE, YardGpu, whole_gib
from gpuyard.profiles.gpus import gpu_key

FILE = "gpus.json"


@dataclass(frozen=True)
class NvmlGpu:
    """One GPU, as it is known by its UUID."""

    uuid: str
    name: str
    memory_bytes: int
    minor: int
    """The number of its device: /dev/nvidia0."""


def read_numbers(folder: Path) -> list[NvmlGpu]:
    """GPUs in the order of their numbers; none where nothing was written yet, InputError if it makes no sense."""
    file = folder / FILE
    try:
        return [
            NvmlGpu(str(each["uuid"]), str(each["name"]), int(each["memory_bytes"]), int(each["minor"]))
            for each in json.loads(file.read_text())
        ]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        hint = "Remove it where no pod has a GPU: numbers are given anew"
        raise InputError(f"is no list of GPUs: {error!r}", file=file, hint=hint) from None


def give_numbers(folder: Path, there: Iterable[NvmlGpu]) -> list[NvmlGpu]:
    """The GPUs of the node in the order of their numbers: those that were known before, and new ones behind them."""
    found = {gpu.uuid: gpu for gpu in there}
    known = [found.pop(gpu.uuid, gpu) for gpu in read_numbers(folder)]
    numbered = [*known, *found.values()]
    if len(numbered) > MOST_GPUS_OF_NODE:
        rule = f"has {len(numbered)} GPUs, those that are lost among them, and a node {MOST_GPUS_OF_NODE} at most"
        raise InputError(rule, file=folder / FILE, hint="Remove it where no pod has a GPU: numbers are given anew")
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f".{FILE}"
    beside.write_text(json.dumps([asdict(gpu) for gpu in numbered]))
    beside.replace(folder / FILE)
    return numbered


def as_yard_gpu(index: int, gpu: NvmlGpu, healthy: bool = True) -> YardGpu:
    """A GPU as the cluster knows it."""
    return YardGpu(index, gpu_key(gpu.name), whole_gib(gpu.memory_bytes), healthy)
