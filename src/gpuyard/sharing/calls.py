"""The C functions of the gate (native/gate/gate.h says what they mean), as Python calls them."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_int, c_int64, c_uint, c_uint32, c_uint64
from ctypes import c_void_p as handle
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpuyard.core.errors import GpuyardError, InputError
from gpuyard.native import find

LIBRARY = "libgpuyard-gate.so"
UNGATED = -1
"""The level of a client that neither waits nor makes others wait."""
ALL_MEMORY = 2**64 - 1
MOST_CLIENTS = 64
PATH_BYTES = 4096


class GateFault(IntEnum):
    """Why a call was refused, where Python has more to say about it than the library."""

    NAME = -1
    ABSENT = -10
    OPEN = -11
    OWNER = -12
    NO_GROUP = -20
    VERSION = -22
    OUT_OF_MEMORY = -33
    CONTROLLED = -52


class Drain(IntEnum):
    """Why streams were drained."""

    PROGRAM = 0
    CAP = 1
    PREEMPTED = 2


class GateTerms(Structure):
    """How a client launches: its level, and how much it may have queued."""

    _fields_ = (("level", c_int64), ("sync_every", c_uint64), ("window", c_uint64), ("hold_ns", c_uint64))
    level: int
    sync_every: int
    window: int
    hold_ns: int


class GateRequest(Structure):
    """What a process brings along when it connects."""

    _fields_ = (
        ("terms", GateTerms),
        ("share", c_double),
        ("slo_s", c_double),
        ("memory_limit", c_uint64),
        ("hold_ns", c_uint64),
    )
    terms: GateTerms
    share: float
    slo_s: float
    memory_limit: int
    hold_ns: int


class GateWords(Structure):
    """Where the numbers are that a launch looks at."""

    _fields_ = tuple((name, handle) for name in ("stop", "sync_every", "window", "queued", "launches"))


class GateClientRecord(Structure):
    """One client as monitors and controllers see it. Times are nanoseconds."""

    _fields_ = (
        *((name, c_uint64) for name in ("slot", "ticket", "pid")),
        ("request", GateRequest),
        ("terms", GateTerms),
        *(
            (name, c_uint64)
            for name in (
                *("stopped", "active", "waiting", "launches", "queued", "longest_queue"),
                *("syncs", "preemptions", "waited_ns", "drains", "drained_launches", "drain_ns"),
                *("busy_ns", "done_launches", "jobs_begun", "jobs_done", "job_since_ns", "last_job_ns"),
                *("job_launches", "resumptions", "resumed_launches", "memory_used"),
            )
        ),
    )


class GateGpuRecord(Structure):
    """One GPU at one instant."""

    _fields_ = (
        ("key", c_char * 48),
        ("now_ns", c_uint64),
        ("controlled", c_uint64),
        ("client_count", c_uint64),
        ("clients", GateClientRecord * MOST_CLIENTS),
    )


class GateDecision(Structure):
    """What a controller decides for one client."""

    _fields_ = (("slot", c_uint64), ("ticket", c_uint64), ("terms", GateTerms))


_GATE = _CLIENT = handle
_OUT_HANDLE, _OUT_BYTES = POINTER(handle), POINTER(c_uint64)
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    # name: what it returns, what it takes
    "error_text": (c_char_p, c_int),
    "read_environment": (c_char_p, POINTER(c_char_p), POINTER(GateRequest)),
    "path": (c_int, c_char_p, c_char_p),
    "open": (c_int, c_char_p, _OUT_HANDLE),
    "watch": (c_int, c_char_p, _OUT_HANDLE),
    "close": (c_int, _GATE),
    "destroy": (None, _GATE),
    "state": (c_int, _GATE),
    "connect": (c_int, _GATE, c_char_p, POINTER(GateRequest), _OUT_HANDLE),
    "disconnect": (c_int, _CLIENT),
    "words": (None, _CLIENT, POINTER(GateWords)),
    "is_open": (c_bool, _CLIENT),
    "is_stopped": (c_bool, _CLIENT),
    "arrive": (c_int, _CLIENT),
    "wait": (c_int, _CLIENT),
    "launched": (c_bool, _CLIENT),
    "counted": (c_bool, _CLIENT, c_uint64),
    "queued": (c_uint64, _CLIENT),
    "drained": (c_int, _CLIENT, c_uint64, c_int, c_uint64),
    "begin_job": (c_int, _CLIENT),
    "end_job": (c_int, _CLIENT),
    "reserve": (c_int, _CLIENT, c_uint64),
    "release": (c_int, _CLIENT, c_uint64),
    "memory": (c_int, _CLIENT, _OUT_BYTES, _OUT_BYTES),
    "gpu_count": (c_int, _GATE),
    "look": (c_int, _GATE, c_uint, POINTER(GateGpuRecord)),
    "control": (c_int, _GATE),
    "decide": (c_int, _GATE, c_uint, POINTER(GateDecision), c_uint),
    "changes": (c_uint32, _GATE),
    "await_change": (c_int, _GATE, c_uint32, c_uint64),
}


class GateLibrary:
    """The library: its functions by their names without the prefix."""

    def __init__(self) -> None:
        library = ctypes.CDLL(str(find(LIBRARY)), use_errno=True)
        for name, (result, *arguments) in _SIGNATURES.items():
            function = getattr(library, f"gpuyard_gate_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"gpuyard_gate_{name} is not declared")


@lru_cache(maxsize=1)
def gate_library() -> GateLibrary:
    """Load the library, once; raises MissingLibraryError where it cannot be compiled."""
    return GateLibrary()


class GateError(GpuyardError):
    """The gate refuses; `code` says why."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(gate_library().error_text(code).decode())


def checked(code: int) -> int:
    """Return what a call came back with; raises what its error means."""
    if code < 0:
        raise GateError(code)
    return code


def group_error(group: str, code: int, folder: Path | None = None) -> Exception:
    """Return the error for a group that cannot be joined."""
    rules = {
        GateFault.NAME: "is no name of a group: 1 to 64 letters, digits, '.', '_' and '-'",
        GateFault.ABSENT: f"has no folder for its file: there is no {folder} (GPUYARD_SHM can name another)",
        GateFault.OPEN: f"has a file that cannot be opened: {os.strerror(ctypes.get_errno())}",
        GateFault.OWNER: "has a file that belongs to another user",
        GateFault.VERSION: "is in use by another version of gpuyard",
        GateFault.NO_GROUP: "is a group that no program is in",
    }
    if code in rules:
        return InputError(rules[GateFault(code)], field="group", value=group)
    return GateError(code)
