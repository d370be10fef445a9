"""What monitors see of the nodes on this machine: who holds how much of which GPU, and how busy it is."""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.core.errors import InputError, nearest
from gpuyard.emulation.node.crowd import PID, PRIORITY, RESERVED, SAT_AT, SHARE, Crowd
from gpuyard.emulation.node.layout import HEADER, SEAT
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
    utilisation: float | None = None
    """Part of the last interval that the GPU worked for it; from a `Sampler`."""


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
    seats: tuple[SeatView, ...]
    utilisation: float | None = None
    """Part of the last interval in which it worked; from a `Sampler`."""


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
        return GpuView(index, slot, uuid, clock, crowd.memory_used, crowd.total_busy_seconds, seats)


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
    )


class Sampler:
    """Looks again and again, and says how busy GPUs were in between."""

    def __init__(self, first_interval_s: float = 0.1) -> None:
        self._first_interval_s = first_interval_s
        self._before: dict[tuple[str, float], NodeView] = {}

    def sample(self) -> list[NodeView]:
        """Look at all nodes; where one is new, look twice, a short interval apart."""
        views = live_nodes()
        if any(_identity(view) not in self._before for view in views):
            self._before = {_identity(view): view for view in views} | self._before
            time.sleep(self._first_interval_s)
            views = live_nodes()
        found = [_compare(self._before.get(_identity(view)), view) for view in views]
        self._before = {_identity(view): view for view in views}
        return found


def _identity(view: NodeView) -> tuple[str, float]:
    return view.name, view.created


def _compare(before: NodeView | None, after: NodeView) -> NodeView:
    if before is None:  # it appeared a moment ago; the next sample will tell
        return after
    return replace(after, gpus=tuple(_compare_gpu(*pair) for pair in zip(before.gpus, after.gpus, strict=True)))


def _compare_gpu(before: GpuView, after: GpuView) -> GpuView:
    span = after.now - before.now
    if span <= 0:
        return after
    busy = {(seat.pid, seat.sat_at): seat.busy_s for seat in before.seats}
    seats = tuple(
        replace(seat, utilisation=_part(seat.busy_s - busy.get((seat.pid, seat.sat_at), 0.0), span))
        for seat in after.seats
    )
    return replace(after, seats=seats, utilisation=_part(after.busy_s - before.busy_s, span))


def _part(busy: float, span: float) -> float:
    return min(1.0, max(0.0, busy / span))
