"""An emulated machine: its GPUs, the clock that its processes share, and how a process connects to a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyard.core.errors import InputError
from gpuyard.emulation.clock import RealClock
from gpuyard.emulation.node.client import SharedGpuClient
from gpuyard.emulation.node.description import GpuSlot, check_same, make, read_clock, read_slots, read_uuids
from gpuyard.emulation.node.gpu_busy import GpuBusyError
from gpuyard.emulation.node.layout import ATTACHED, HEADER, MAX_CLIENTS
from gpuyard.emulation.node.policy_codes import read_sharing
from gpuyard.emulation.node.segment import MAKING, Segment, path_of
from gpuyard.emulation.node.shared_gpu import ClientTerms, SharedGpu
from gpuyard.policies.timeshare import TimeSharing, TimeSlice


class Node:
    """One emulated machine, attached. Processes that open the same name share its GPUs."""

    def __init__(self, segment: Segment) -> None:
        """Use `Node.open`."""
        self._segment = segment
        self.name = segment.text(HEADER, 0, "name")
        self.gpus, self.uuids = read_slots(segment), read_uuids(segment)
        self.sharing = read_sharing(segment)
        self.clock = read_clock(segment)
        self._shared_gpus = [SharedGpu(segment, gpu, self.sharing, self.clock.speed) for gpu in range(len(self.gpus))]
        self._clients: list[SharedGpuClient] = []

    @classmethod
    def open(
        cls, name: str, gpus: Sequence[GpuSlot], *, speed: float = 1.0, sharing: TimeSharing | None = None
    ) -> Node:
        """Attach to the node of this name, or make it if no process uses it."""
        path, clock, sharing = path_of(name), RealClock(speed), sharing or TimeSlice()
        if not gpus:
            raise InputError("has no GPUs", field="node", value=name)
        while True:
            segment = Segment(path, create=True)
            try:
                with segment.locked(MAKING):
                    if segment.is_current and segment.is_empty:
                        make(segment, name, gpus, clock, sharing)
                        return cls._attached(segment)
                    if segment.is_current and segment.is_attached:
                        segment.map()
                        check_same(segment, name, gpus, speed, sharing)
                        return cls._attached(segment)
                    if segment.is_current:
                        path.unlink()  # nobody uses it; whoever still has it mapped keeps what is there
            except BaseException:
                segment.close()
                raise
            segment.close()

    @classmethod
    def _attached(cls, segment: Segment) -> Node:
        segment.hold(ATTACHED, shared=True)
        return cls(segment)

    def connect(
        self,
        gpu: int,
        *,
        priority: int = 0,
        share: float = 1.0,
        demand: float = 1.0,
        memory_limit: int | None = None,
    ) -> SharedGpuClient:
        """Become a client of a GPU. Under the partition policy, `share` also is the part of the memory one gets."""
        from gpuyard.emulation.node.admission import check_room  # monitors do without it and what it imports

        terms = self._terms(gpu, priority, share, demand, memory_limit)
        shared = self._shared_gpus[gpu]
        with shared.lock:
            clock = shared.reap(self.clock.now())
            check_room(gpu, shared, self.sharing, terms)
            free = (client for client in range(MAX_CLIENTS) if client not in shared.clients)
            number = next((client for client in free if shared.connect(client, clock, terms)), None)
        if number is None:
            raise GpuBusyError(gpu, f"{MAX_CLIENTS} processes use it already, the most that one GPU takes")
        client = SharedGpuClient(shared, number, self.clock)
        self._clients.append(client)
        return client

    def _terms(self, gpu: int, priority: int, share: float, demand: float, memory_limit: int | None) -> ClientTerms:
        """Check what a process asks for."""
        if not 0 <= gpu < len(self.gpus):
            raise InputError(f"is not a GPU of node {self.name!r}, which has {len(self.gpus)}", field="gpu", value=gpu)
        for field, value in (("share", share), ("demand", demand)):
            if not 0 < value <= 1:
                raise InputError("is no part of a GPU, above 0 and at most 1", field=field, value=value)
        if memory_limit is not None and memory_limit < 0:
            raise InputError("is less than nothing", field="memory_limit", value=memory_limit)
        slot = self.gpus[gpu]
        limit = slot.memory_bytes if memory_limit is None else memory_limit
        held = self.sharing.held_share(share)
        if held:
            limit = min(limit, max(0, int(held * slot.memory_bytes) - slot.context_bytes))
        return ClientTerms(limit, priority, share, demand)

    def close(self) -> None:
        """Disconnect from all GPUs; the last process to go removes the node. A forked one has nothing to give back."""
        if self._segment.is_open:
            for client in self._clients:
                client.disconnect()
            self._segment.drop(ATTACHED)
            self._segment.remove_if_unused()
            self._segment.close()
