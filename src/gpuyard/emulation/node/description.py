"""What a node is made of, and what never changes while it lives: its GPUs, its clock and its sharing policy."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from gpuyard.emulation.clock import RealClock
from gpuyard.emulation.node.ground import UUID_BYTES, DescriptionRecord, GpuRecord, text
from gpuyard.emulation.node.handle import NodeHandle
from gpuyard.emulation.node.policy_codes import read_sharing
from gpuyard.policies.timeshare import TimeSharing


@dataclass(frozen=True)
class GpuSlot:
    """One GPU of a node, as monitors show it."""

    key: str
    name: str
    memory_bytes: int
    compute_capability: tuple[int, int] = (8, 0)
    multiprocessors: int = 100
    context_bytes: int = 0
    """What each process takes besides what it reserves."""
    idle_watts: float = 25.0
    max_watts: float = 300.0
    core_mhz: int = 1500
    memory_mhz: int = 1500


_SAME = ("memory_bytes", "multiprocessors", "context_bytes", "idle_watts", "max_watts", "core_mhz", "memory_mhz")
"""Fields that are called the same in a record."""


@dataclass(frozen=True)
class Description:
    """A node as it was made."""

    name: str
    created: float
    """Unix time."""
    clock: RealClock
    sharing: TimeSharing
    gpus: tuple[GpuSlot, ...]
    uuids: tuple[str, ...]

    @classmethod
    def read(cls, node: NodeHandle) -> Description:
        """Read what a node says about itself."""
        about = DescriptionRecord()
        node.call("describe", ctypes.byref(about))
        gpus = [_read_gpu(node, index) for index in range(about.gpu_count)]
        clock, sharing = RealClock(about.speed, about.origin), read_sharing(about.sharing)
        slots, uuids = tuple(slot for slot, _ in gpus), tuple(uuid for _, uuid in gpus)
        return cls(text(about.name), about.created, clock, sharing, slots, uuids)


def _read_gpu(node: NodeHandle, index: int) -> tuple[GpuSlot, str]:
    record, uuid = GpuRecord(), ctypes.create_string_buffer(UUID_BYTES)
    node.call("describe_gpu", index, ctypes.byref(record), uuid)
    capability = record.compute_major, record.compute_minor
    same = {name: getattr(record, name) for name in _SAME}
    return GpuSlot(text(record.key), text(record.name), compute_capability=capability, **same), text(uuid.value)


def written_gpus(gpus: Sequence[GpuSlot]) -> ctypes.Array[GpuRecord]:
    """Write the GPUs of a node, their texts cut to what there is room for."""
    return (GpuRecord * len(gpus))(*map(_written, gpus))


def _written(slot: GpuSlot) -> GpuRecord:
    record = GpuRecord(**{name: getattr(slot, name) for name in _SAME})
    record.key, record.name = _cut(slot.key, GpuRecord.key.size), _cut(slot.name, GpuRecord.name.size)
    record.compute_major, record.compute_minor = slot.compute_capability
    return record


def _cut(words: str, size: int) -> bytes:
    return words.encode()[: size - 1]


def summary(gpus: Sequence[GpuSlot]) -> str:
    """Write GPUs as `2xV100+1xK80`."""
    groups = [(key, len(list(group))) for key, group in groupby(gpus, key=lambda slot: slot.key)]
    return "+".join(f"{count}x{key}" for key, count in groups)
