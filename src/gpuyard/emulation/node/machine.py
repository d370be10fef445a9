"""An emulated machine: its GPUs, the clock that its processes share, and how a process connects to a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from gpuyard.core.errors import InputError
from gpuyard.emulation.clock import RealClock
from gpuyard.emulation.node.client import SharedGpuClient
from gpuyard.emulation.node.description import Description, GpuSlot, summary, written_gpus
from gpuyard.emulation.node.gpu_busy import GpuBusyError
from gpuyard.emulation.node.ground import ALL_MEMORY, MOST_CLIENTS, MOST_NAME_BYTES, Fault, TermsRecord, ground
from gpuyard.emulation.node.handle import NodeHandle, opened
from gpuyard.emulation.node.policy_codes import written_sharing
from gpuyard.emulation.node.segment import file_error, path_of
from gpuyard.emulation.node.view import described
from gpuyard.policies.timeshare import TimeSharing, TimeSlice


class Node:
    """One emulated machine, attached. Processes that open the same name share its GPUs."""

    def __init__(self, handle: NodeHandle) -> None:
        """Use `Node.open`."""
        about = Description.read(handle)
        self._handle = handle
        self.name, self.gpus, self.uuids = about.name, about.gpus, about.uuids
        self.sharing, self.clock = about.sharing, about.clock

    @classmethod
    def open(
        cls, name: str, gpus: Sequence[GpuSlot], *, speed: float = 1.0, sharing: TimeSharing | None = None
    ) -> Node:
        """Attach to the node of this name, or make it if no process uses it."""
        RealClock(speed)  # refuses a speed that is none
        if "\0" in name:
            raise InputError("has a zero byte in it", field="node", value=name)
        asked, address = sharing or TimeSlice(), ctypes.c_void_p()
        written, policy = written_gpus(gpus), written_sharing(asked)
        code = ground().open(name.encode(), written, len(gpus), speed, policy, ctypes.byref(address))
        return cls(opened(name, code, address, lambda code: _refusal(code, name, gpus, speed, asked)))

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
        if memory_limit is not None and memory_limit < 0:
            raise InputError("is less than nothing", field="memory_limit", value=memory_limit)
        limit = ALL_MEMORY if memory_limit is None else min(memory_limit, ALL_MEMORY)
        terms, address = TermsRecord(priority, share, demand, limit), ctypes.c_void_p()
        number = gpu if 0 <= gpu < len(self.gpus) else len(self.gpus)
        code = self._handle.ground.connect(self._handle.address, number, terms, ctypes.byref(address))
        if code < 0:
            raise self._connect_error(code, gpu, terms)
        assert address.value is not None
        return SharedGpuClient(self._handle, address.value)

    def _connect_error(self, code: int, gpu: int, terms: TermsRecord) -> Exception:
        if code == Fault.NO_SUCH_GPU:
            return InputError(f"is not a GPU of node {self.name!r}, which has {len(self.gpus)}", field="gpu", value=gpu)
        if code in (Fault.SHARE, Fault.DEMAND):
            field = Fault(code).name.lower()
            return InputError("is no part of a GPU, above 0 and at most 1", field=field, value=getattr(terms, field))
        if code == Fault.SHARE_TAKEN:
            return GpuBusyError(gpu, self._why_taken(gpu, self.sharing.held_share(terms.share)))
        if code == Fault.MEMORY_TAKEN:
            return GpuBusyError(gpu, "its memory has no room for another process")
        if code == Fault.CLIENTS_TAKEN:
            return GpuBusyError(gpu, f"{MOST_CLIENTS} processes use it already, the most that one GPU takes")
        return self._handle.error(code)

    def _why_taken(self, gpu: int, asked: float) -> str:
        left = ctypes.c_double()
        self._handle.call("share_left", gpu, ctypes.byref(left))
        if asked >= 1 and not left.value:
            return "another process has it to itself"
        return f"a share of {asked:g} was asked for, and {left.value:g} is left"

    def close(self) -> None:
        """Disconnect from all GPUs; the last process to go removes the node. A forked one has nothing to give back."""
        self._handle.ground.close(self._handle.address)


def _refusal(code: int, name: str, gpus: Sequence[GpuSlot], speed: float, sharing: TimeSharing) -> Exception:
    """Say why a node cannot be opened."""
    if code == Fault.NAME:
        return InputError(f"is empty, or longer than {MOST_NAME_BYTES} bytes", field="node", value=name)
    if code == Fault.NO_GPUS:
        return InputError("has no GPUs", field="node", value=name)
    hint = "Wait until its processes end, or use another node name"
    if code == Fault.VERSION:
        return InputError("is in use by another version of gpuyard", field="node", value=name, hint=hint)
    if code in (Fault.OTHER_GPUS, Fault.OTHER_SPEED, Fault.OTHER_SHARING):
        why = _difference(code, described(name), gpus, speed, sharing)
        return InputError(f"is in use with {why}", field="node", value=name, hint=hint)
    return file_error(path_of(name), code)


def _difference(
    code: int, there: Description | None, gpus: Sequence[GpuSlot], speed: float, sharing: TimeSharing
) -> str:
    """Say in what a node that is in use differs from the one that was asked for; it may have ended by now."""
    what = {Fault.OTHER_GPUS: "GPUs", Fault.OTHER_SPEED: "speed", Fault.OTHER_SHARING: "sharing"}[Fault(code)]
    if there is None:
        return f"another {what}"
    found, asked = {
        "GPUs": (summary(there.gpus), summary(gpus)),
        "speed": (f"{there.clock.speed:g}", f"{speed:g}"),
        "sharing": (str(there.sharing), str(sharing)),
    }[what]
    return f"{what} {'other ' if found == asked else ''}{found}, not {asked}"
