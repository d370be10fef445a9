"""One process's use of emulated GPUs, from its first call to its last: devices, clock, and what to tell afterwards."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property

from gpuyard.core.errors import GpuyardError, InputError
from gpuyard.emulation.clock import Clock, DeviceClock, VirtualClock
from gpuyard.emulation.device import Gpu, SoleGpuClient
from gpuyard.emulation.node import GpuSlot, Node
from gpuyard.emulation.report import ProcessReport
from gpuyard.emulation.settings import Settings, emulated_sharing
from gpuyard.profiles.gpus import GpuKind, parse_gpus
from gpuyard.sharing.group import Group, Membership

SAVE_EVERY_S = 1.0
"""How often, in real seconds and at most, a process writes its part of the report, lest it be killed without one."""


class Session:
    """The GPUs that this process sees. A GPU is taken into use when it is first touched."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.machine = parse_gpus(settings.gpus)
        self.node: Node | None = None
        self.clock: Clock
        if settings.clock == "real":
            self.node = open_node(settings, self.machine)
            self.clock = self.node.clock
        else:
            self.clock = VirtualClock() if settings.clock == "virtual" else DeviceClock()
        self.report = ProcessReport(started=self.clock.now())
        self.on_close: list[Callable[[], None]] = []
        """What remains to be done once everything is written and given back."""
        self._saved = -SAVE_EVERY_S
        self._gpus: dict[int, Gpu] = {}
        self._membership: Membership | None = None
        self._ungated = False
        """Whether the gate could not be used, which is said once."""
        self._forked = self._inherited = False
        """Whether this is a child of a process that uses GPUs, or of one that uses none; it may connect by itself."""
        visible_gpus(len(self.machine), os.environ.get("CUDA_VISIBLE_DEVICES"))  # what is wrong already is said now

    @cached_property
    def visible(self) -> tuple[int, ...]:
        """Return which of the machine's GPUs the program sees; as with CUDA, decided when it first asks."""
        return visible_gpus(len(self.machine), os.environ.get("CUDA_VISIBLE_DEVICES"))

    @cached_property
    def kinds(self) -> tuple[GpuKind, ...]:
        """Return the kinds of the GPUs that the program sees."""
        return tuple(self.machine[index] for index in self.visible)

    def gpu(self, index: int) -> Gpu:
        """Return a GPU by the index this program knows it by."""
        found = self._gpus.get(index)
        return self._take(index) if found is None else found

    def used(self) -> list[Gpu]:
        """Return the GPUs that were touched."""
        return list(self._gpus.values())

    def notice(self, text: str) -> None:
        """Tell the user something, on stderr and in the report."""
        self.report.notices.append(text)
        print(f"gpuyard: {text}", file=sys.stderr)

    def begin_pass(self) -> None:
        """Say that a model's forward pass begins."""
        if self.settings.report and self._gpus:
            self.report.step_times.begin(self.used())

    def end_step(self) -> None:
        """Say that all work of a training step is queued."""
        if self.settings.report and self._gpus:
            self.report.step_times.end(self.used())
            if time.monotonic() - self._saved > SAVE_EVERY_S:
                self.save_report()

    def save_report(self) -> None:
        """Write this process's part of the report, if one is wanted and a GPU was used."""
        self._saved = time.monotonic()
        if self.settings.report and self._gpus:
            self.report.write(self.settings.report, self.used(), self.visible, self.clock.now())

    def close(self) -> None:
        """Write the report and disconnect from every GPU."""
        self.save_report()
        for gpu in self._gpus.values():
            gpu.client.disconnect()
        if self.node is not None:
            self.node.close()
        if self._membership is not None:
            self._membership.group.close()
        while self.on_close:
            self.on_close.pop()()

    @contextmanager
    def rehearsing(self) -> Iterator[None]:
        """Let what is done inside happen on a GPU that nobody sees: the program connects when it needs one."""
        kind = self.machine[0]
        self._gpus = {0: Gpu(0, kind, VirtualClock(), SoleGpuClient(kind.memory_bytes))}
        try:
            yield
        finally:
            self._gpus = {}

    def abandon(self) -> None:
        """Forget everything without disconnecting, in a forked child: the connections are its parent's."""
        self._forked = bool(self._gpus)
        self._inherited = True
        self._gpus = {}
        self._membership = None
        self.on_close = []
        self.settings = replace(self.settings, report="")

    def _take(self, index: int) -> Gpu:
        if self._forked:
            raise RuntimeError(
                "Cannot re-initialize CUDA in forked subprocess. "
                "To use CUDA with multiprocessing, you must use the 'spawn' start method"
            )
        if self._inherited and self.node is not None:
            self.node, self._inherited = open_node(self.settings, self.machine), False
        if not self.kinds:
            raise RuntimeError("No CUDA GPUs are available")
        if not 0 <= index < len(self.kinds):
            raise RuntimeError(
                "CUDA error: invalid device ordinal\n"
                f"(gpuyard emulates {len(self.kinds)} GPUs, so the highest index is {len(self.kinds) - 1})"
            )
        kind, limit = self.kinds[index], self.settings.memory_limit_bytes
        memory = kind.memory_bytes if limit is None else min(limit, kind.memory_bytes)
        if self.node is None:
            gpu = Gpu(index, kind, self.clock, SoleGpuClient(memory))
        else:
            client = self.node.connect(
                self.visible[index],
                priority=self.settings.priority,
                share=self.settings.share,
                demand=self.settings.share,
                memory_limit=limit,
            )
            gpu = Gpu(index, kind, self.clock, client)
            self._share(gpu, self.node.uuids[self.visible[index]])
        self._gpus[index] = gpu
        return gpu

    def _share(self, gpu: Gpu, uuid: str) -> None:
        """Put a GPU behind the gate of the group that the program is in, if it is in one."""
        if not os.environ.get("GPUYARD_GATE") or self._ungated:
            return
        try:
            self._membership = self._membership or Group.of_environment()
            if self._membership is not None:
                gpu.share_by(self._membership.connect(uuid))
        except GpuyardError as error:
            self._ungated = True
            self.notice(f"this program is not gated: {error}")


def open_node(settings: Settings, machine: tuple[GpuKind, ...]) -> Node:
    """Create the emulated machine, or join it if another process has it running."""
    sharing = emulated_sharing(settings.sharing) if settings.sharing else None
    return Node.open(settings.node_name, [slot(kind) for kind in machine], speed=settings.speed, sharing=sharing)


def slot(kind: GpuKind) -> GpuSlot:
    """Describe a GPU to monitors."""
    return GpuSlot(
        key=kind.key,
        name=kind.name,
        memory_bytes=kind.memory_bytes,
        compute_capability=kind.compute_capability,
        multiprocessors=kind.multiprocessors,
        idle_watts=kind.idle_power_w,
        max_watts=kind.max_power_w,
        core_mhz=kind.max_clock_mhz,
        memory_mhz=kind.max_memory_clock_mhz,
    )


def visible_gpus(count: int, restriction: str | None) -> tuple[int, ...]:
    """Return which of the machine's GPUs a program sees, by CUDA_VISIBLE_DEVICES."""
    if restriction is None:
        return tuple(range(count))
    found: list[int] = []
    for item in restriction.split(","):
        if not item.strip().isdigit() or int(item) >= count:
            break  # as CUDA does: everything from the first invalid entry on is hidden
        if int(item) in found:
            raise InputError("names a GPU twice", field="CUDA_VISIBLE_DEVICES", value=restriction)
        found.append(int(item))
    return tuple(found)
