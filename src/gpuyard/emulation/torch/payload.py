"""Values that travel with a collective: what tensors know, as bytes, and what becomes of it on the other side."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed import ReduceOp

from gpuyard.emulation.torch import values
from gpuyard.emulation.torch.tensor import EmulatedTensor

Blob = bytes | None
"""The contents of a tensor, or None if they are not known."""

_ABSENT = -1
_OPERATIONS: dict[Any, Callable[..., torch.Tensor]] = {
    ReduceOp.SUM: torch.add,
    ReduceOp.AVG: torch.add,
    ReduceOp.PRODUCT: torch.mul,
    ReduceOp.MIN: torch.minimum,
    ReduceOp.MAX: torch.maximum,
    ReduceOp.BAND: torch.bitwise_and,
    ReduceOp.BOR: torch.bitwise_or,
    ReduceOp.BXOR: torch.bitwise_xor,
}


def blob_of(tensor: EmulatedTensor) -> Blob:
    """Return what a tensor holds, if that is known."""
    contents = values.known(tensor)
    return None if contents is None else contents.reshape(-1).view(torch.uint8).numpy().tobytes()


def pack(blobs: Sequence[Blob]) -> Blob:
    """Put the contents of several tensors into one message; None if there are none at all."""
    if all(blob is None for blob in blobs):
        return None
    lengths = [_ABSENT if blob is None else len(blob) for blob in blobs]
    return struct.pack(f"<{len(lengths) + 1}q", len(lengths), *lengths) + b"".join(blob or b"" for blob in blobs)


def unpack(message: Blob) -> list[Blob]:
    """Take a message apart; one without contents has no parts."""
    if message is None:
        return []
    (count,) = struct.unpack_from("<q", message)
    lengths = struct.unpack_from(f"<{count}q", message, 8)
    start, blobs = 8 * (count + 1), []
    for length in lengths:
        blobs.append(None if length == _ABSENT else message[start : start + length])
        start += max(0, length)
    return blobs


def part(row: Sequence[Blob], index: int) -> Blob:
    """Return one part of an unpacked message, None where it has no contents."""
    return row[index] if index < len(row) else None


def restored(blob: Blob, like: EmulatedTensor) -> torch.Tensor | None:
    """Turn bytes into a host tensor of the form of an emulated one."""
    if blob is None:
        return None
    if not blob:
        return torch.empty(like.form.size, dtype=like.dtype)
    return torch.frombuffer(bytearray(blob), dtype=like.dtype).view(like.form.size)


def reduced(operation: Any, blobs: Sequence[Blob], like: EmulatedTensor) -> torch.Tensor | None:
    """Combine what all ranks gave, in the order of ranks, so that all get the same to the last digit."""
    combine = _OPERATIONS.get(operation)
    parts = [each for each in (restored(blob, like) for blob in blobs) if each is not None]
    if combine is None or len(parts) < len(blobs):
        return None
    if like.dtype is torch.bool:
        return functools.reduce(combine, [each.to(torch.uint8) for each in parts]).to(torch.bool)
    total = functools.reduce(combine, parts)
    if operation != ReduceOp.AVG:
        return total
    return total / len(parts) if total.is_floating_point() else total // len(parts)
