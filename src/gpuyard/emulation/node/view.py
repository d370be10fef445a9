"""What monitors see of the nodes on this machine: who holds how much of which GPU, and how busy it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from gpuyard.core.errors import InputError, nearest
from gpuyard.emulation.node.crowd import PID, PRIORITY, RESERVED, SAT_AT, SHARE, Crowd, Mark
from gpuyard.emulation.node.layout import HEADER, SEAT, WINDOW_S
from gpuyard.emulation.node.making import GpuSlot, read_clock, read_sharing, read_slots, read_uuids
from gpuyard.emulation.node.segment import Segment, folder
from gpuyard.emulation.node.sharing import Sharing


@dataclass(frozen=True)
class SeatView:
    """One process at a GPU."""

    pid: int
    sat_at: float
    memory_bytes: int
    """What it holds, its context included."""
    reserved_bytes: int
    allocated_bytes: int
    peak_bytes: int
    steps: int
    priority: int
    share: float
    busy_s: float
    """Seconds of GPU work done since it sat down."""
    utilisation: float
    """Part of the last second in which the GPU worked for it."""


@dataclass(frozen=True)
class GpuView:
    """One GPU of a node."""

    index: int
    slot: GpuSlot
    uuid: str
    now: float
    """The node's clock when it was looked at."""
    memory_used: int
    busy_s: float
    """Seconds of work ever done on it."""
    utilisation: float
    """Part of the last second in which it worked."""
    seats: tuple[SeatView, ...]


@dataclass(frozen=True)
class NodeView:
    """One node that processes are attached to."""

    name: str
    created: float
    """Unix time."""
    speed: float
    sharing: Sharing
    gpus: tuple[GpuView, ...]


def live_nodes() -> list[NodeView]:
    """Look at every node of this user, by name; files of nodes that nobody uses any more are removed."""
    found = [_look_at(path) for path in folder().glob(f"gpuyard-{os.getuid()}-*")]
    return sorted((view for view in found if view), key=lambda view: view.name)


def node(name: str) -> NodeView:
    """Look at one node."""
    views = {view.name: view for view in live_nodes()}
    if name in views:
        return views[name]
    hint = nearest(name, views) if views else "No node is live; gpuyard emulate starts one"
    raise InputError("is not a live node", field="node", value=name, hint=hint)


def _look_at(path: Path) -> NodeView | None:
    try:
        segment = Segment(path)
    except (FileNotFoundError, InputError):  # gone by now, or not ours
        return None
    with closing(segment):
        if segment.remove_if_unused():
            return None
        segment.map()
        return _read(segment) if segment.is_sound else None


def _read(segment: Segment) -> NodeView:
    clock, sharing = read_clock(segment), read_sharing(segment)
    slots, uuids = read_slots(segment), read_uuids(segment)
    gpus = tuple(
        _read_gpu(Crowd(segment, index, sharing, clock.speed), index, slot, uuid, clock.now())
        for index, (slot, uuid) in enumerate(zip(slots, uuids, strict=True))
    )
    name, created = segment.text(HEADER, 0, "name"), segment.reals[HEADER.word("created")]
    return NodeView(name, created, clock.speed, sharing, gpus)


def _read_gpu(crowd: Crowd, index: int, slot: GpuSlot, uuid: str, now: float) -> GpuView:
    with crowd.lock:
        clock = crowd.reap(now)
        seats = tuple(_read_seat(crowd, seat, clock) for seat in crowd.seats)
        busy = min(1.0, sum(seat.utilisation for seat in seats))
        return GpuView(index, slot, uuid, clock, crowd.memory_used, crowd.total_busy_seconds, busy, seats)


def _read_seat(crowd: Crowd, seat: int, now: float) -> SeatView:
    words, base = crowd.words, crowd.base(seat)
    reserved = words[base + RESERVED]
    return SeatView(
        pid=words[base + PID],
        sat_at=crowd.reals[base + SAT_AT],
        memory_bytes=reserved + crowd.context_bytes,
        reserved_bytes=reserved,
        allocated_bytes=words[base + SEAT.word("allocated")],
        peak_bytes=words[base + SEAT.word("peak")],
        steps=words[base + SEAT.word("steps")],
        priority=crowd.segment.signed[base + PRIORITY],
        share=crowd.reals[base + SHARE],
        busy_s=crowd.busy_seconds(seat, now),
        utilisation=utilisation(crowd, seat, now),
    )


def utilisation(crowd: Crowd, seat: int, now: float) -> float:
    """Return the part of the last second of real time in which the GPU worked for a seat."""
    base, window = crowd.base(seat), WINDOW_S * crowd.speed
    trail = crowd.trail(base, now)
    return min(1.0, max(0.0, (trail[0].done - _done_by(crowd.position_at(base, now - window), trail)) / window))


def _done_by(position: float, trail: Sequence[Mark]) -> float:
    """Return the work that a seat had done at a position; from one mark to the next it is taken to go on evenly."""
    for later, earlier in pairwise(trail):
        if later.idle_from <= position:
            return later.done
        if earlier.position <= position:
            part = (position - earlier.position) / (later.idle_from - earlier.position)
            return earlier.done + part * (later.done - earlier.done)
    return trail[-1].done
