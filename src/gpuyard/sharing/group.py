"""A group of programs that share GPUs, and this process as a client of one of them."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from weakref import finalize

from gpuyard.core.errors import InputError
from gpuyard.sharing.calls import (
    ALL_MEMORY,
    PATH_BYTES,
    Drain,
    GateDecision,
    GateFault,
    GateGpuRecord,
    GateRequest,
    GateTerms,
    GateWords,
    checked,
    gate_library,
    group_error,
)


@dataclass(frozen=True)
class Terms:
    """How a client launches: its level, and how much it may have queued."""

    level: int = 0
    sync_every: int = 0
    window: int = 0
    hold_ns: int = 0
    """So long after each of its jobs its level stays active."""


UNCAPPED = Terms()
"""The lowest level, and as much queued as it likes."""


@dataclass(frozen=True)
class ClientState:
    """One client of a GPU at one instant. Times are nanoseconds."""

    slot: int
    ticket: int
    pid: int
    own: Terms
    """What it brought along; in force unless a controller decides otherwise."""
    share: float
    slo_s: float
    memory_limit: int
    hold_s: float
    """A job goes on if the program launches again so soon after it has seen that all is done."""
    terms: Terms
    """In force."""
    stopped: bool
    active: bool
    waiting: int
    """Threads that wait at the gate."""
    launches: int
    queued: int
    longest_queue: int
    syncs: int
    preemptions: int
    waited_ns: int
    drains: int
    drained_launches: int
    drain_ns: int
    busy_ns: int
    done_launches: int
    jobs_begun: int
    jobs_done: int
    job_since_ns: int
    last_job_ns: int
    job_launches: int
    """Of its present job, or the last."""
    resumptions: int
    """How often that job went on within its hold."""
    resumed_launches: int
    """Its launches before the last time that it did."""
    memory_used: int


@dataclass(frozen=True)
class GatedGpu:
    """One GPU of a group at one instant."""

    key: str
    now_ns: int
    controlled: bool
    clients: tuple[ClientState, ...]


def group_path(name: str) -> Path:
    """Return where a group's file is, if it has one."""
    path = ctypes.create_string_buffer(PATH_BYTES)
    code = gate_library().path(os.fsencode(name), path)
    if code < 0:
        raise group_error(name, code)
    return Path(os.fsdecode(path.value))


class Group:
    """Programs that share. Whoever opens it is in it until it is closed or its process ends."""

    def __init__(self, name: str, *, watch: bool = False) -> None:
        """Join the group, or make it; one that only watches does not keep it alive, and needs it to be there."""
        self.name = name
        address = ctypes.c_void_p()
        open_ = gate_library().watch if watch else gate_library().open
        code = open_(os.fsencode(name), ctypes.byref(address))
        if code < 0:
            raise group_error(name, code, group_path(name).parent)
        self.address = address.value
        finalize(self, gate_library().destroy, self.address).atexit = False

    def connect(
        self,
        gpu: str,
        terms: Terms = UNCAPPED,
        *,
        share: float = 1.0,
        slo_s: float = 0.0,
        memory_limit: int = ALL_MEMORY,
        hold_s: float = 0.0,
    ) -> GateClient:
        """Become a client of a GPU, which all programs know by the same name."""
        return self.connect_as(gpu, GateRequest(_record(terms), share, slo_s, memory_limit, round(hold_s * 1e9)))

    def connect_as(self, gpu: str, request: GateRequest) -> GateClient:
        """The same with everything in one."""
        address = ctypes.c_void_p()
        checked(gate_library().connect(self.address, gpu.encode(), ctypes.byref(request), ctypes.byref(address)))
        return GateClient(self, address.value or 0)

    @classmethod
    def of_environment(cls) -> Membership | None:
        """Join the group that GPUYARD_GATE names; None without one."""
        name, request = ctypes.c_char_p(), GateRequest()
        wrong = gate_library().read_environment(ctypes.byref(name), ctypes.byref(request))
        if wrong:
            raise InputError(wrong.decode())
        return None if name.value is None else Membership(cls(name.value.decode()), request)

    def gpus(self) -> list[GatedGpu]:
        """Look at all GPUs that the group has used."""
        return [self.look(number) for number in range(checked(gate_library().gpu_count(self.address)))]

    def look(self, number: int) -> GatedGpu:
        """Look at one GPU; the dead are disconnected."""
        found = GateGpuRecord()
        checked(gate_library().look(self.address, number, ctypes.byref(found)))
        clients = tuple(_state(found.clients[place]) for place in range(found.client_count))
        return GatedGpu(found.key.decode(), found.now_ns, bool(found.controlled), clients)

    def control(self) -> None:
        """Become the group's controller."""
        checked(gate_library().control(self.address))

    def decide(self, number: int, clients: Sequence[ClientState], terms: Sequence[Terms]) -> None:
        """Put terms into force for clients of one GPU; those that have gone meanwhile are left out."""
        decisions = (GateDecision * len(clients))(
            *(GateDecision(to.slot, to.ticket, _record(each)) for to, each in zip(clients, terms, strict=True))
        )
        checked(gate_library().decide(self.address, number, decisions, len(clients)))

    def changes(self) -> int:
        """Return how often clients came or went so far."""
        return int(gate_library().changes(self.address))

    def await_change(self, seen: int, seconds: float) -> None:
        """Wait until clients have come or gone since, or so long."""
        checked(gate_library().await_change(self.address, seen, int(seconds * 1e9)))

    def close(self) -> None:
        """Leave the group."""
        checked(gate_library().close(self.address))


@dataclass(frozen=True)
class Membership:
    """This process in the group of its environment, with what it brings along to each GPU."""

    group: Group
    request: GateRequest

    def connect(self, gpu: str) -> GateClient:
        """Become a client of a GPU."""
        return self.group.connect_as(gpu, self.request)


class GateClient:
    """This process at one GPU. `stop`, `sync_every`, `window`, `queued` and `launches` are words in shared memory."""

    def __init__(self, group: Group, address: int) -> None:
        self._group = group  # lest it be freed
        self.address = address
        words = GateWords()
        gate_library().words(address, ctypes.byref(words))
        self.stop = _word(group, words.stop, "I")
        self.sync_every, self.window = _word(group, words.sync_every), _word(group, words.window)
        self.queued, self.launches = _word(group, words.queued), _word(group, words.launches)

    def arrive(self) -> bool:
        """Begin a job, unless one is under way; True if it has to wait."""
        return bool(checked(gate_library().arrive(self.address)))

    def wait(self) -> None:
        """Wait until the gate is open."""
        checked(gate_library().wait(self.address))

    def launched(self) -> bool:
        """Count a launch; True if it is time to drain."""
        return bool(gate_library().launched(self.address))

    def drained(self, launches: int, why: Drain = Drain.PROGRAM, wait_ns: int = 0) -> None:
        """Say that so many of the launches that were queued are done."""
        checked(gate_library().drained(self.address, launches, why, wait_ns))

    def begin_job(self) -> None:
        """Say that a job begins, whatever is synchronised until it ends."""
        checked(gate_library().begin_job(self.address))

    def end_job(self) -> None:
        """Say that it ends."""
        checked(gate_library().end_job(self.address))

    def counted(self, queued: int) -> bool:
        """Do what is left of a launch that the caller has counted by itself; True if it is time to drain."""
        return bool(gate_library().counted(self.address, queued))

    def reserve(self, nbytes: int) -> bool:
        """Take memory from the client's limit; False if that forbids it."""
        code = gate_library().reserve(self.address, nbytes)
        return code != GateFault.OUT_OF_MEMORY and checked(code) == 0

    def memory(self) -> tuple[int, int]:
        """Return the limit, and what is taken of it."""
        limit, used = ctypes.c_uint64(), ctypes.c_uint64()
        checked(gate_library().memory(self.address, ctypes.byref(limit), ctypes.byref(used)))
        return limit.value, used.value

    def release(self, nbytes: int) -> None:
        """Give memory back."""
        checked(gate_library().release(self.address, nbytes))

    def disconnect(self) -> None:
        """Leave the GPU."""
        checked(gate_library().disconnect(self.address))


def _word(owner: Group, address: int, code: str = "Q") -> memoryview:
    word = (ctypes.c_char * struct.calcsize(code)).from_address(address)
    word.owner = owner  # type: ignore[attr-defined]  # lest the memory be freed while anybody looks at it
    return memoryview(word).cast("B").cast(code)  # type: ignore[call-overload, no-any-return]


def _record(terms: Terms) -> GateTerms:
    return GateTerms(terms.level, terms.sync_every, terms.window, terms.hold_ns)


def _terms(record: GateTerms) -> Terms:
    return Terms(record.level, record.sync_every, record.window, record.hold_ns)


_COUNTS = [name for name, kind in ClientState.__annotations__.items() if kind == "int" and name != "memory_limit"]


def _state(record: ctypes.Structure) -> ClientState:
    request: GateRequest = record.request
    return ClientState(
        own=_terms(request.terms),
        share=request.share,
        slo_s=request.slo_s,
        memory_limit=request.memory_limit,
        hold_s=request.hold_ns / 1e9,
        terms=_terms(record.terms),
        stopped=bool(record.stopped),
        active=bool(record.active),
        **{name: getattr(record, name) for name in _COUNTS},
    )
