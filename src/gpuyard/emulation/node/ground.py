"""The C functions that nodes are made of (native/node/node.h says what they mean), as Python calls them."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_int, c_int64, c_uint, c_uint64, c_void_p
from enum import IntEnum
from functools import lru_cache
from typing import Any

from gpuyard.core.errors import GpuyardError
from gpuyard.native import find

LIBRARY = "libgpuyard-node.so"
MOST_CLIENTS = 64
MOST_NAME_BYTES = 100
NAME_BYTES = 104
UUID_BYTES = 48
PATH_BYTES = 4096
ALL_MEMORY = 2**64 - 1


class Fault(IntEnum):
    """Why a call was refused, where Python has more to say about it than the library."""

    NAME = -1
    NO_GPUS = -2
    NO_SUCH_GPU = -5
    SHARE = -6
    DEMAND = -7
    ABSENT = -10
    OPEN = -11
    OWNER = -12
    ROOM = -13
    VERSION = -22
    OTHER_GPUS = -23
    OTHER_SPEED = -24
    OTHER_SHARING = -25
    SHARE_TAKEN = -30
    MEMORY_TAKEN = -31
    CLIENTS_TAKEN = -32
    OUT_OF_MEMORY = -33
    DISCONNECTED = -40
    CLOSED = -41
    FORKED = -42


class Figure(IntEnum):
    """What a process tells monitors about itself."""

    ALLOCATED = 0
    PEAK = 1
    STEPS = 2


class SharingRecord(Structure):
    """A sharing policy by number, with its options."""

    _fields_ = (
        ("policy", c_uint64),
        ("quantum_s", c_double),
        ("switch_s", c_double),
        ("capacity", c_double),
        ("interference", c_double),
    )


class ClaimRecord(Structure):
    """What of a process with work queued may decide how fast it runs."""

    _fields_ = (("priority", c_int64), ("share", c_double), ("demand", c_double), ("ticket", c_uint64))


class GpuRecord(Structure):
    """One GPU of a node."""

    _fields_ = (
        ("key", c_char * 32),
        ("name", c_char * 96),
        ("memory_bytes", c_uint64),
        ("context_bytes", c_uint64),
        ("compute_major", c_uint64),
        ("compute_minor", c_uint64),
        ("multiprocessors", c_uint64),
        ("idle_watts", c_double),
        ("max_watts", c_double),
        ("core_mhz", c_uint64),
        ("memory_mhz", c_uint64),
    )


class DescriptionRecord(Structure):
    """What never changes while a node lives."""

    _fields_ = (
        ("name", c_char * NAME_BYTES),
        ("created", c_double),
        ("origin", c_double),
        ("speed", c_double),
        ("sharing", SharingRecord),
        ("gpu_count", c_uint64),
    )


class TermsRecord(Structure):
    """On which terms a process uses a GPU."""

    _fields_ = (("priority", c_int64), ("share", c_double), ("demand", c_double), ("memory_limit", c_uint64))


class LineRecord(Structure):
    """What is known of a client without looking."""

    _fields_ = (
        ("generation", c_uint64),
        ("since", c_double),
        ("position", c_double),
        ("rate", c_double),
        ("horizon", c_double),
        ("sample_at", c_double),
        ("alone", c_uint64),
        ("generation_now", c_void_p),
        ("tail", c_void_p),
        ("busy", c_void_p),
    )


class ClientRecord(Structure):
    """One process at a GPU, as monitors see it."""

    _fields_ = (
        ("pid", c_uint64),
        ("connected_at", c_double),
        ("memory_bytes", c_uint64),
        ("reserved_bytes", c_uint64),
        ("allocated_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("steps", c_uint64),
        ("priority", c_int64),
        ("share", c_double),
        ("busy_s", c_double),
        ("utilisation", c_double),
    )


class GpuViewRecord(Structure):
    """One GPU at one instant."""

    _fields_ = (
        ("now", c_double),
        ("unix_time", c_double),
        ("memory_used", c_uint64),
        ("busy_s", c_double),
        ("utilisation", c_double),
        ("watts", c_double),
        ("celsius", c_double),
        ("joules", c_double),
        ("client_count", c_uint64),
        ("clients", ClientRecord * MOST_CLIENTS),
    )


_OUT_NUMBER, _OUT_BYTES, _OUT_HANDLE = POINTER(c_double), POINTER(c_uint64), POINTER(c_void_p)
_NODE = _CLIENT = _SEGMENT = c_void_p
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    # name: what it returns, what it takes
    "error_text": (c_char_p, c_int),
    "policy_name": (c_char_p, c_uint64),
    "rates": (None, POINTER(SharingRecord), POINTER(ClaimRecord), c_uint, _OUT_NUMBER),
    "open": (c_int, c_char_p, POINTER(GpuRecord), c_uint, c_double, POINTER(SharingRecord), _OUT_HANDLE),
    "watch": (c_int, c_char_p, _OUT_HANDLE),
    "close": (c_int, _NODE),
    "destroy": (None, _NODE),
    "describe": (c_int, _NODE, POINTER(DescriptionRecord)),
    "describe_gpu": (c_int, _NODE, c_uint, POINTER(GpuRecord), c_char_p),
    "now": (c_double, _NODE),
    "connect": (c_int, _NODE, c_uint, POINTER(TermsRecord), _OUT_HANDLE),
    "share_left": (c_int, _NODE, c_uint, _OUT_NUMBER),
    "disconnect": (c_int, _CLIENT),
    "device_time": (c_int, _CLIENT, c_double, _OUT_NUMBER),
    "submit": (c_int, _CLIENT, c_double, c_double, c_double),
    "reached_at": (c_int, _CLIENT, c_double, c_double, _OUT_NUMBER),
    "look_again": (c_int, _CLIENT, c_double, c_double, _OUT_NUMBER),
    "reserve": (c_int, _CLIENT, c_uint64),
    "release": (c_int, _CLIENT, c_uint64),
    "free_memory": (c_int, _CLIENT, _OUT_BYTES),
    "memory_limit": (c_int, _CLIENT, _OUT_BYTES),
    "neighbours": (c_int, _CLIENT, POINTER(c_uint)),
    "publish": (c_int, _CLIENT, c_int, c_uint64),
    "known_line": (c_int, _CLIENT, POINTER(LineRecord)),
    "look": (c_int, _NODE, c_uint, c_double, POINTER(GpuViewRecord)),
    "live_nodes": (c_int, POINTER(c_char * NAME_BYTES), c_uint),
    "folder": (c_int, c_char_p),
    "path": (c_int, c_char_p, c_char_p),
    "segment_open": (c_int, c_char_p, c_bool, _OUT_HANDLE),
    "segment_allocate": (c_int, _SEGMENT, c_uint64),
    "segment_map": (c_int, _SEGMENT),
    "segment_memory": (c_void_p, _SEGMENT),
    "segment_length": (c_uint64, _SEGMENT),
    "segment_hold": (c_int, _SEGMENT, c_uint64, c_bool),
    "segment_held_elsewhere": (c_int, _SEGMENT, c_uint64),
    "segment_close": (None, _SEGMENT),
    "segment_destroy": (None, _SEGMENT),
}


class Ground:
    """The library: its functions by their names without the prefix."""

    def __init__(self) -> None:
        library = ctypes.CDLL(str(find(LIBRARY)), use_errno=True)
        for name, (result, *arguments) in _SIGNATURES.items():
            function = getattr(library, f"gpuyard_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"gpuyard_{name} is not declared")


@lru_cache(maxsize=1)
def ground() -> Ground:
    """Load the library, once; raises MissingLibraryError where it cannot be compiled."""
    return Ground()


def reason() -> str:
    """Say why the system refused what the last call asked it for."""
    return os.strerror(ctypes.get_errno())


def unexpected(code: int) -> GpuyardError:
    """Return the error for a code that the caller has nothing to say about."""
    return GpuyardError(f"{ground().error_text(code).decode()}: {reason()}")


def text(raw: bytes) -> str:
    """Read a text of the library's."""
    return raw.decode(errors="replace")
