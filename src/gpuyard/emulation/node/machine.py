"""An emulated machine: its GPUs, the clock that its processes share, and the way to a seat at a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyard.core.errors import InputError
from gpuyard.emulation.clock import RealClock
from gpuyard.emulation.node.crowd import SHARE, Crowd, Terms
from gpuyard.emulation.node.layout import ATTACHED, HEADER, SEATS
from gpuyard.emulation.node.making import GpuSlot, check_same, make, read_clock, read_sharing, read_slots, read_uuids
from gpuyard.emulation.node.seat import Seat
from gpuyard.emulation.node.segment import MAKING, Segment, path_of
from gpuyard.emulation.node.sharing import Policy, Sharing


class GpuBusyError(InputError):
    """A GPU takes no further process now, in words like CUDA's own."""


class Node:
    """One emulated machine, attached. Processes that open the same name share its GPUs."""

    def __init__(self, segment: Segment) -> None:
        """Use `Node.open`."""
        self._segment = segment
        self.name = segment.text(HEADER, 0, "name")
        self.gpus, self.uuids = read_slots(segment), read_uuids(segment)
        self.sharing = read_sharing(segment)
        self.clock = read_clock(segment)
        self._crowds = [Crowd(segment, gpu, self.sharing, self.clock.speed) for gpu in range(len(self.gpus))]
        self._seats: list[Seat] = []

    @classmethod
    def open(cls, name: str, gpus: Sequence[GpuSlot], *, speed: float = 1.0, sharing: Sharing | None = None) -> Node:
        """Attach to the node of this name, or make it if no process uses it."""
        path, clock, sharing = path_of(name), RealClock(speed), sharing or Sharing()
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

    def sit(
        self,
        gpu: int,
        *,
        priority: int = 0,
        share: float = 1.0,
        demand: float = 1.0,
        memory_limit: int | None = None,
    ) -> Seat:
        """Take a seat at a GPU. Under the partition policy, `share` also is the part of the memory one gets."""
        terms = self._terms(gpu, priority, share, demand, memory_limit)
        crowd = self._crowds[gpu]
        with crowd.lock:
            clock = crowd.reap(self.clock.now())
            self._check_room(gpu, terms)
            free = (seat for seat in range(SEATS) if seat not in crowd.seats)
            number = next((seat for seat in free if crowd.take(seat, clock, terms)), None)
        if number is None:
            raise _busy(gpu, f"{SEATS} processes use it already, the most that one GPU takes")
        seat = Seat(crowd, number, self.clock)
        self._seats.append(seat)
        return seat

    def _terms(self, gpu: int, priority: int, share: float, demand: float, memory_limit: int | None) -> Terms:
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
        if self.sharing.policy is Policy.PARTITION:
            limit = min(limit, max(0, int(share * slot.memory_bytes) - slot.context_bytes))
        return Terms(limit, priority, share, demand)

    def _check_room(self, gpu: int, terms: Terms) -> None:
        """Refuse a process that the policy or the memory has no room for."""
        crowd, slot = self._crowds[gpu], self.gpus[gpu]
        if self.sharing.policy is Policy.EXCLUSIVE and crowd.seats:
            raise _busy(gpu, "another process has it to itself")
        if self.sharing.policy is Policy.PARTITION:
            left = 1.0 - sum(crowd.reals[crowd.base(seat) + SHARE] for seat in crowd.seats)
            if terms.share > left + 1e-9:
                raise _busy(gpu, f"a share of {terms.share:g} was asked for, and {max(0.0, left):g} is left")
        if crowd.memory_used + slot.context_bytes > slot.memory_bytes:
            raise _busy(gpu, "its memory has no room for another process")

    def close(self) -> None:
        """Leave all seats; the last one to go removes the node. A forked process has nothing to leave."""
        if self._segment.is_open:
            for seat in self._seats:
                seat.leave()
            self._segment.drop(ATTACHED)
            self._segment.remove_if_unused()
            self._segment.close()


def _busy(gpu: int, why: str) -> GpuBusyError:
    return GpuBusyError(f"all CUDA-capable devices are busy or unavailable: GPU {gpu}: {why}")
