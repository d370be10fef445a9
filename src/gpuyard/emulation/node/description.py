"""What a node is made of, and what never changes while it lives: its GPUs, its clock and its sharing policy."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from uuid import NAMESPACE_OID, uuid5

from gpuyard.core.errors import InputError
from gpuyard.emulation.clock import RealClock
from gpuyard.emulation.node import layout
from gpuyard.emulation.node.layout import GPU, HEADER, WORD, gpu_offset
from gpuyard.emulation.node.policy_codes import read_sharing, write_sharing
from gpuyard.emulation.node.segment import Segment
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


_COUNTS = ("memory_bytes", "multiprocessors", "context_bytes", "core_mhz", "memory_mhz")
_AMOUNTS = ("idle_watts", "max_watts")


def make(segment: Segment, name: str, gpus: Sequence[GpuSlot], clock: RealClock, sharing: TimeSharing) -> None:
    """Fill an empty segment."""
    segment.allocate(layout.segment_length(len(gpus)))
    header = {each: HEADER.word(each) for each in HEADER.offsets}
    words, reals = segment.words, segment.reals
    for index, slot in enumerate(gpus):
        _write_slot(segment, index, slot, name)
    words[header["version"]], words[header["length"]] = layout.VERSION, layout.segment_length(len(gpus))
    words[header["gpu_count"]] = len(gpus)
    reals[header["origin"]], reals[header["speed"]], reals[header["created"]] = clock.origin, clock.speed, time.time()
    write_sharing(segment, sharing)
    segment.set_text(HEADER, 0, "name", name)
    words[header["magic"]] = layout.MAGIC


def _write_slot(segment: Segment, index: int, slot: GpuSlot, node: str) -> None:
    offset = gpu_offset(index)
    start = offset // WORD
    for name in _COUNTS:
        segment.words[start + GPU.word(name)] = getattr(slot, name)
    for name in _AMOUNTS:
        segment.reals[start + GPU.word(name)] = getattr(slot, name)
    major, minor = slot.compute_capability
    segment.words[start + GPU.word("compute_major")], segment.words[start + GPU.word("compute_minor")] = major, minor
    segment.set_text(GPU, offset, "key", slot.key)
    segment.set_text(GPU, offset, "name", slot.name)
    segment.set_text(GPU, offset, "uuid", f"GPU-{uuid5(NAMESPACE_OID, f'gpuyard {os.getuid()} {node} {index}')}")


def read_slots(segment: Segment) -> tuple[GpuSlot, ...]:
    """Return the node's GPUs."""
    return tuple(_read_slot(segment, gpu_offset(index)) for index in range(segment.words[HEADER.word("gpu_count")]))


def _read_slot(segment: Segment, offset: int) -> GpuSlot:
    start = offset // WORD
    counts = {name: segment.words[start + GPU.word(name)] for name in (*_COUNTS, "compute_major", "compute_minor")}
    capability = counts.pop("compute_major"), counts.pop("compute_minor")
    idle_watts, max_watts = (segment.reals[start + GPU.word(name)] for name in _AMOUNTS)
    key, name = segment.text(GPU, offset, "key"), segment.text(GPU, offset, "name")
    return GpuSlot(key, name, compute_capability=capability, idle_watts=idle_watts, max_watts=max_watts, **counts)


def read_uuids(segment: Segment) -> tuple[str, ...]:
    """Return the unique name of each GPU."""
    count = segment.words[HEADER.word("gpu_count")]
    return tuple(segment.text(GPU, gpu_offset(index), "uuid") for index in range(count))


def read_clock(segment: Segment) -> RealClock:
    """Return the clock that all processes of the node read."""
    return RealClock(segment.reals[HEADER.word("speed")], segment.reals[HEADER.word("origin")])


def check_same(segment: Segment, name: str, gpus: Sequence[GpuSlot], speed: float, sharing: TimeSharing) -> None:
    """Refuse to attach to a node that is not what was asked for."""
    hint = "Wait until its processes end, or use another node name"
    if not segment.is_sound:
        raise InputError("is in use by another version of gpuyard", field="node", value=name, hint=hint)
    pairs = {
        "GPUs": (_summary(read_slots(segment)), _summary(tuple(gpus))),
        "speed": (f"{segment.reals[HEADER.word('speed')]:g}", f"{speed:g}"),
        "sharing": (str(read_sharing(segment)), str(sharing)),
    }
    if read_slots(segment) != tuple(gpus) and pairs["GPUs"][0] == pairs["GPUs"][1]:
        pairs["GPUs"] = (f"other {pairs['GPUs'][0]}", pairs["GPUs"][1])
    for what, (there, asked) in pairs.items():
        if there != asked:
            raise InputError(f"is in use with {what} {there}, not {asked}", field="node", value=name, hint=hint)


def _summary(gpus: tuple[GpuSlot, ...]) -> str:
    groups = [(key, len(list(group))) for key, group in groupby(gpus, key=lambda slot: slot.key)]
    return "+".join(f"{count}x{key}" for key, count in groups)
