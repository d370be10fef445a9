"""The segment's binary layout, stated once: Python reads it through offsets, native/nvml.c through `c_header()`.

    header | gpu 0 | gpu 0's clients 0…63 | gpu 1 | gpu 1's clients 0…63 | …

Little endian. Every number takes 8 bytes and text a multiple of 8, so nothing is ever padded and each store of a number
is one store of the processor: a process that is killed cannot leave half a number behind.

Who is alive is said by locks, not by numbers: the kernel drops them with the process, whichever way it ends. They are
open-file-description locks (F_OFD_SETLK) on single bytes of the file, and F_OFD_GETLK with F_WRLCK tells who holds one:

- the header's byte ATTACHED: read-locked by every process attached to the node; without one, the file is stale;
- a client's first byte: write-locked by its process; a client without it is gone, whatever it says;
- the header's first byte: held while a node is made or removed; a GPU's: held while its clients are advanced.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gpuyard.core.errors import InputError

MAGIC = int.from_bytes(b"gpuyard\0", "little")
VERSION = 2
MAX_CLIENTS = 64
"""Processes that can use one GPU at a time; `connected` has one bit for each."""
MAX_BREAKPOINTS = 256
"""Breakpoints kept for each client."""
MAX_SAMPLES = 8
"""Samples kept for each client, enough for WINDOW_S. Whoever reads without a lock leaves out the oldest breakpoint and
the oldest sample, which may just be overwritten."""
WINDOW_S = 1.0
"""Utilisation is the busy part of so many past seconds of real time, as that of real GPUs."""
ATTACHED = 8
"""Byte of the header that attached processes hold a read lock on."""

WORD = 8
FOLDER = "/dev/shm"  # noqa: S108  shared memory is where a segment belongs; where there is none, the temporary folder
MOST_NAME_BYTES = 100
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-")

Kind = Literal["u64", "i64", "f64", "text"]
_C_TYPE: dict[Kind, str] = {"u64": "uint64_t", "i64": "int64_t", "f64": "double", "text": "char"}


@dataclass(frozen=True)
class Field:
    """One number, or one text of `size` bytes that ends with a zero byte."""

    name: str
    kind: Kind
    about: str
    size: int = WORD


@dataclass(frozen=True)
class RecordLayout:
    """Fields one after another. `length` may exceed their sum: what follows belongs to the record's arrays."""

    name: str
    fields: tuple[Field, ...]
    extra: int = 0
    offsets: dict[str, int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        offsets, end = {}, 0
        for each in self.fields:
            if each.size % WORD:
                raise ValueError(f"{self.name}.{each.name}: {each.size} bytes are no multiple of {WORD}")
            offsets[each.name] = end
            end += each.size
        object.__setattr__(self, "offsets", offsets)

    @property
    def length(self) -> int:
        """Bytes from one such record to the next."""
        return sum(each.size for each in self.fields) + self.extra

    def word(self, name: str) -> int:
        """Return a number's place in words of 8 bytes from the record's start."""
        return self.offsets[name] // WORD

    def size(self, name: str) -> int:
        """Bytes that a field takes."""
        return next(each.size for each in self.fields if each.name == name)


BREAKPOINT = RecordLayout(
    "breakpoint",
    (
        Field("clock", "f64", "emulated seconds at which the client's rate changed"),
        Field("position", "f64", "its device time then"),
        Field("rate", "f64", "device seconds per emulated second from then on"),
    ),
)

SAMPLE = RecordLayout(
    "sample",
    (
        Field("idle_from", "f64", "device time from which its queue had been empty; the position, if it was not"),
        Field("position", "f64", "device time at which its process recorded the sample"),
        Field("done", "f64", "seconds of work done by then"),
    ),
)

CLIENT = RecordLayout(
    "client",
    (
        Field("pid", "u64", "the process, as it sees itself"),
        Field("connected_at", "f64", "emulated seconds at which it connected"),
        Field("priority", "i64", "higher runs first under the priority policy"),
        Field("share", "f64", "part of the GPU's compute under the partition policy"),
        Field("demand", "f64", "part of the GPU it fills when it runs, for the spatial policy"),
        Field("memory_limit", "u64", "most bytes it may reserve"),
        Field("reserved", "u64", "bytes it holds; its context comes on top"),
        Field("allocated", "u64", "bytes of those in use by tensors"),
        Field("peak", "u64", "most bytes ever in use by tensors"),
        Field("steps", "u64", "training steps done, as far as it says"),
        Field("tail", "f64", "device time at which its queue ends"),
        Field("busy", "f64", "seconds of work it has queued in total; all but tail - device time of it is done"),
        Field("ticket", "u64", "place in the line under the fifo policy; 0 has none"),
        Field("chunk_end", "f64", "device time at which its ticket is used up"),
        Field("breakpoint_count", "u64", "how many were ever written; the newest is number breakpoint_count - 1"),
        Field("sample_count", "u64", "how many were ever recorded; the newest is number sample_count - 1"),
    ),
    extra=MAX_BREAKPOINTS * BREAKPOINT.length + MAX_SAMPLES * SAMPLE.length,
)

GPU = RecordLayout(
    "gpu",
    (
        Field("key", "text", "kind of GPU, as in gpuyard gpus", 32),
        Field("name", "text", "what torch and NVML call it", 96),
        Field("uuid", "text", "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", 48),
        Field("memory_bytes", "u64", "all of its memory"),
        Field("context_bytes", "u64", "what each process takes besides what it reserves"),
        Field("compute_major", "u64", "compute capability, before the dot"),
        Field("compute_minor", "u64", "and after it"),
        Field("multiprocessors", "u64", "streaming multiprocessors"),
        Field("idle_watts", "f64", "power drawn when idle"),
        Field("max_watts", "f64", "power drawn when busy; its limit"),
        Field("core_mhz", "u64", "highest clock of its multiprocessors"),
        Field("memory_mhz", "u64", "highest clock of its memory"),
        Field("generation", "u64", "grows whenever who is connected, or how fast anybody runs, changes"),
        Field("connected", "u64", "one bit for each client that is connected"),
        Field("updated", "f64", "emulated seconds up to which its clients are advanced"),
        Field("reaped", "f64", "emulated seconds at which dead clients were last looked for"),
        Field("last_ticket", "u64", "last ticket given out under the fifo policy"),
        Field("retired_busy", "f64", "seconds of work done at clients that are free again"),
    ),
)

HEADER = RecordLayout(
    "header",
    (
        Field("magic", "u64", "gpuyard and a zero byte; written last, so a half-made file has none"),
        Field("version", "u64", "of this layout; this word's first byte is the lock ATTACHED"),
        Field("length", "u64", "bytes of the whole file"),
        Field("gpu_count", "u64", "GPUs that follow"),
        Field("origin", "f64", "CLOCK_MONOTONIC at which the emulated clock started, from this same value"),
        Field("speed", "f64", "emulated seconds per second"),
        Field("created", "f64", "Unix time at which the node was made"),
        Field("policy", "u64", "number of the sharing policy, by the table in policy_codes.py"),
        Field("quantum", "f64", "seconds of a time slice"),
        Field("switch_cost", "f64", "seconds lost between two slices"),
        Field("capacity", "f64", "sum of demands that run at full speed under the spatial policy"),
        Field("interference", "f64", "factor on a client's rate for each other that is active, spatial policy"),
        Field("name", "text", "the node's name", 104),
    ),
)

GPU_STRIDE = GPU.length + MAX_CLIENTS * CLIENT.length


def gpu_offset(gpu: int) -> int:
    """Where a GPU's record begins."""
    return HEADER.length + gpu * GPU_STRIDE


def client_offset(gpu: int, client: int) -> int:
    """Where a client's record begins; its breakpoints and then its samples follow its fields."""
    return gpu_offset(gpu) + GPU.length + client * CLIENT.length


def segment_length(gpus: int) -> int:
    """Bytes of a node with so many GPUs."""
    return gpu_offset(gpus)


def file_name(uid: int, node: str) -> str:
    """Name a node's file: bytes of its name other than ASCII letters, digits and `._+-` become `_`."""
    raw = node.encode()
    if not 0 < len(raw) <= MOST_NAME_BYTES:
        raise InputError(f"a node's name has 1 to {MOST_NAME_BYTES} bytes", field="node", value=node)
    return f"gpuyard-{uid}-" + "".join(chr(byte) if byte in _PLAIN else "_" for byte in raw)


def c_header() -> str:
    """Write the layout as a C header."""
    constants = {
        "MAGIC": f"UINT64_C({MAGIC:#x})",
        "VERSION": VERSION,
        "MAX_CLIENTS": MAX_CLIENTS,
        "MAX_BREAKPOINTS": MAX_BREAKPOINTS,
        "MAX_SAMPLES": MAX_SAMPLES,
        "WINDOW_S": WINDOW_S,
        "ATTACHED": ATTACHED,
        "FOLDER": f'"{FOLDER}"',
        "MOST_NAME_BYTES": MOST_NAME_BYTES,
        "HEADER_LENGTH": HEADER.length,
        "GPU_LENGTH": GPU.length,
        "GPU_STRIDE": GPU_STRIDE,
        "CLIENT_LENGTH": CLIENT.length,
    }
    lines = ["/* Generated from gpuyard/emulation/node/layout.py, which explains it. */", "#pragma once", ""]
    lines += ["#include <stddef.h>", "#include <stdint.h>", ""]
    lines += [f"#define GPUYARD_{name} {value}" for name, value in constants.items()]
    rings = [
        f"    struct gpuyard_{record.name} {name}[{size}];  /* a ring: number n is at n % {size} */"
        for record, name, size in ((BREAKPOINT, "breakpoints", MAX_BREAKPOINTS), (SAMPLE, "samples", MAX_SAMPLES))
    ]
    for record in (BREAKPOINT, SAMPLE, CLIENT, GPU, HEADER):
        lines += ["", *_c_struct(record, rings if record is CLIENT else [])]
    return "\n".join(lines) + "\n"


def _c_struct(record: RecordLayout, rings: list[str]) -> list[str]:
    name = f"struct gpuyard_{record.name}"
    lines = [f"{name} {{"]
    for each in record.fields:
        length = f"[{each.size}]" if each.kind == "text" else ""
        lines.append(f"    {_C_TYPE[each.kind]} {each.name}{length};  /* {each.about} */")
    lines += [*rings, "};"]
    lines += [
        f'_Static_assert(offsetof({name}, {each.name}) == {record.offsets[each.name]}, "{record.name}.{each.name}");'
        for each in record.fields
    ]
    lines.append(f'_Static_assert(sizeof({name}) == {record.length}, "{record.name}");')
    return lines
