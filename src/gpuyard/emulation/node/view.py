"""What monitors see of the nodes on this machine: who holds how much of which GPU, and how busy it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from gpuyard.core.errors import InputError, nearest
from gpuyard.emulation.node.description import GpuSlot, read_clock, read_slots, read_uuids
from gpuyard.emulation.node.layout import CLIENT, HEADER, WINDOW_S
from gpuyard.emulation.node.policy_codes import read_sharing
from gpuyard.emulation.node.segment import Segment, folder
from gpuyard.emulation.node.shared_gpu import CONNECTED_AT, PID, PRIORITY, RESERVED, SHARE, SharedGpu, UsageSample
from gpuyard.policies.timeshare import TimeSharing


@dataclass(frozen=True)
class ClientView:
    """One process at a GPU."""

    pid: int
    connected_at: float
    memory_bytes: int
    """What it holds, its context included."""
    reserved_bytes: int
    allocated_bytes: int
    peak_bytes: int
    steps: int
    priority: int
    share: float
    busy_s: float
    """Seconds of GPU work done since it connected."""
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
    clients: tuple[ClientView, ...]


@dataclass(frozen=True)
class NodeView:
    """One node that processes are attached to."""

    name: str
    created: float
    """Unix time."""
    speed: float
    sharing: TimeSharing
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
        _read_gpu(SharedGpu(segment, index, sharing, clock.speed), index, slot, uuid, clock.now())
        for index, (slot, uuid) in enumerate(zip(slots, uuids, strict=True))
    )
    name, created = segment.text(HEADER, 0, "name"), segment.reals[HEADER.word("created")]
    return NodeView(name, created, clock.speed, sharing, gpus)


def _read_gpu(shared: SharedGpu, index: int, slot: GpuSlot, uuid: str, now: float) -> GpuView:
    with shared.lock:
        clock = shared.reap(now)
        clients = tuple(_read_client(shared, client, clock) for client in shared.clients)
        busy = min(1.0, sum(client.utilisation for client in clients))
        return GpuView(index, slot, uuid, clock, shared.memory_used, shared.total_busy_seconds, busy, clients)


def _read_client(shared: SharedGpu, client: int, now: float) -> ClientView:
    words, base = shared.words, shared.base(client)
    reserved = words[base + RESERVED]
    return ClientView(
        pid=words[base + PID],
        connected_at=shared.reals[base + CONNECTED_AT],
        memory_bytes=reserved + shared.context_bytes,
        reserved_bytes=reserved,
        allocated_bytes=words[base + CLIENT.word("allocated")],
        peak_bytes=words[base + CLIENT.word("peak")],
        steps=words[base + CLIENT.word("steps")],
        priority=shared.segment.signed[base + PRIORITY],
        share=shared.reals[base + SHARE],
        busy_s=shared.busy_seconds(client, now),
        utilisation=utilisation(shared, client, now),
    )


def utilisation(shared: SharedGpu, client: int, now: float) -> float:
    """Return the part of the last second of real time in which the GPU worked for a client."""
    base, window = shared.base(client), WINDOW_S * shared.speed
    samples = shared.samples(base, now)
    return min(1.0, max(0.0, (samples[0].done - _done_by(shared.position_at(base, now - window), samples)) / window))


def _done_by(position: float, samples: Sequence[UsageSample]) -> float:
    """Return the work that a client had done at a position; from one sample to the next it is taken to go on evenly."""
    for later, earlier in pairwise(samples):
        if later.idle_from <= position:
            return later.done
        if earlier.position <= position:
            part = (position - earlier.position) / (later.idle_from - earlier.position)
            return earlier.done + part * (later.done - earlier.done)
    return samples[-1].done
