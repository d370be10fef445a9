"""Pinned host memory: real page-locked buffers where the system allows it, really copied into."""

from __future__ import annotations

import ctypes
import mmap
import weakref
from typing import Any

import torch

_PAGE = mmap.PAGESIZE
_pinned: set[int] = set()
"""Addresses of storages that are pinned."""
_libc = ctypes.CDLL(None, use_errno=True)


class _Buffers:
    """Page-locked buffers, kept for reuse as CUDA's host allocator keeps them."""

    def __init__(self) -> None:
        self.free: dict[int, list[mmap.mmap]] = {}
        self.locked = True
        """Whether the system lets us lock pages; if not, pinned memory is ordinary memory."""

    def take(self, nbytes: int) -> tuple[int, mmap.mmap]:
        size = 1 << max(nbytes - 1, _PAGE - 1).bit_length()
        stack = self.free.get(size)
        if stack:
            return size, stack.pop()
        buffer = mmap.mmap(-1, size)
        address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
        if self.locked and _libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(size)):
            self.locked = False
        return size, buffer

    def give_back(self, address: int, size: int, buffer: mmap.mmap) -> None:
        _pinned.discard(address)
        self.free.setdefault(size, []).append(buffer)


buffers = _Buffers()


def is_pinned(tensor: torch.Tensor) -> bool:
    """Say whether a host tensor lies in pinned memory."""
    return bool(_pinned) and tensor.untyped_storage().data_ptr() in _pinned


def pin(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a host tensor into pinned memory, as `Tensor.pin_memory` does."""
    if tensor.device.type != "cpu":
        raise RuntimeError(f"cannot pin '{tensor.type()}' only dense CPU tensors can be pinned")
    if is_pinned(tensor) or tensor.numel() == 0:
        return tensor
    shape = torch.empty_like(torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"))
    size, buffer = buffers.take(shape.untyped_storage().nbytes())
    flat = torch.frombuffer(buffer, dtype=tensor.dtype, count=shape.untyped_storage().nbytes() // tensor.element_size())
    copy = flat.as_strided(shape.shape, shape.stride())
    copy.copy_(tensor)
    address = copy.untyped_storage().data_ptr()
    _pinned.add(address)
    _when_storage_dies(copy, address, size, buffer)
    return copy


def _when_storage_dies(tensor: torch.Tensor, address: int, size: int, buffer: Any) -> None:
    """Reuse the buffer once nothing views it any more; torch keeps a storage's Python object as long as the storage."""
    weakref.finalize(tensor.untyped_storage(), buffers.give_back, address, size, buffer)
