"""What monitors see of the nodes on this machine: who holds how much of which GPU, and how busy it is."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from gpuyard.core.errors import GpuyardError, InputError, nearest
from gpuyard.emulation.node.description import Description, GpuSlot
from gpuyard.emulation.node.ground import NAME_BYTES, ClientRecord, GpuViewRecord, ground, text, unexpected
from gpuyard.emulation.node.handle import opened
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
    watts: float
    celsius: float
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


class Watcher:
    """Somebody who looks at a live node without taking part in it."""

    def __init__(self, name: str) -> None:
        address = ctypes.c_void_p()
        code = ground().watch(name.encode(), ctypes.byref(address))
        self._handle = opened(name, code, address, unexpected)
        self.about = Description.read(self._handle)

    def gpu(self, index: int, now: float | None = None) -> GpuView:
        """Look at a GPU: now, or at a time that is still to come if nobody queues anything until then."""
        about, record = self.about, GpuViewRecord()
        self._handle.call("look", index, about.clock.now() if now is None else now, ctypes.byref(record))
        clients = tuple(map(_client, record.clients[: record.client_count]))
        return GpuView(
            index=index,
            slot=about.gpus[index],
            uuid=about.uuids[index],
            now=record.now,
            memory_used=record.memory_used,
            busy_s=record.busy_s,
            utilisation=record.utilisation,
            watts=record.watts,
            celsius=record.celsius,
            clients=clients,
        )

    def node(self) -> NodeView:
        """Look at all of it."""
        about = self.about
        gpus = tuple(self.gpu(index) for index in range(len(about.gpus)))
        return NodeView(about.name, about.created, about.clock.speed, about.sharing, gpus)


def _client(record: ClientRecord) -> ClientView:
    return ClientView(**{name: getattr(record, name) for name, _ in ClientRecord._fields_})


def live_names() -> list[str]:
    """Return the names of all nodes of this user; files of nodes that nobody uses any more are removed."""
    room = 0
    while True:
        names = (ctypes.c_char * NAME_BYTES * room)()
        count = ground().live_nodes(names, room)
        if count < 0:
            raise unexpected(count)
        if count <= room:
            return sorted(text(each.value) for each in names[:count])
        room = 2 * count


def live_nodes() -> list[NodeView]:
    """Look at every node of this user, by name."""
    found = []
    for name in live_names():
        try:
            found.append(Watcher(name).node())
        except GpuyardError:  # gone by now
            continue
    return found


def node(name: str) -> NodeView:
    """Look at one node."""
    views = {view.name: view for view in live_nodes()}
    if name in views:
        return views[name]
    hint = nearest(name, views) if views else "No node is live; gpuyard emulate starts one"
    raise InputError("is not a live node", field="node", value=name, hint=hint)


def described(name: str) -> Description | None:
    """Return what a live node is made of; None if it is gone."""
    try:
        return Watcher(name).about
    except GpuyardError:
        return None
