"""Checkpoints: files have the size and the form of real ones, and say that their tensors came from a GPU.

Values that nobody has are zeros. A file saved under emulation loads anywhere, and one saved on a real GPU loads here.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from gpuyard.emulation.torch import moves
from gpuyard.emulation.torch.moves import index_of
from gpuyard.emulation.torch.tensor import Block, EmulatedTensor

_origins: dict[int, str] = {}
"""By address of a host storage that is about to be saved: the GPU it stands for."""
_copies: weakref.WeakKeyDictionary[Block, weakref.ref[torch.UntypedStorage]] = weakref.WeakKeyDictionary()
"""Host copies that still live, so that tensors which share memory are saved once."""


def reduce(self: EmulatedTensor, protocol: Any) -> Any:
    """Save as a tensor of the host whose storage is labelled with its GPU."""
    form, block = self.form, self.block
    found = _copies.get(block)
    storage = found() if found is not None else None
    if storage is None:
        block.gpu.copy_to_host(block.size)
        flat = block.values
        if flat is None:
            flat = torch.zeros(-(-block.size // form.dtype.itemsize), dtype=form.dtype)
        storage = flat.untyped_storage()
        _copies[block] = weakref.ref(storage)
        address = storage.data_ptr()
        _origins[address] = f"cuda:{block.gpu.index}"
        weakref.finalize(storage, _origins.pop, address, None)
    host = torch.empty(0, dtype=form.dtype).set_(storage, form.offset, form.size, form.stride)
    if isinstance(self, torch.nn.Parameter):
        return torch.nn.Parameter(host, self.requires_grad).__reduce_ex__(protocol)
    return host.requires_grad_(self.requires_grad).__reduce_ex__(protocol)


def _label(storage: Any) -> str | None:
    return _origins.get(storage.data_ptr()) if storage.device.type == "cpu" else None


_load = torch.load


def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Load a file onto the host, then move to GPUs what belongs there."""
    targets: dict[int, int] = {}

    def place(storage: Any, location: str) -> Any:
        wanted = _wanted(map_location, storage, location)
        index = index_of(wanted) if isinstance(wanted, (str, torch.device)) else None
        if index is not None:
            targets[storage.data_ptr()] = index
            return storage
        return storage if wanted is None or isinstance(wanted, (str, torch.device)) else wanted

    if map_location is not None and _only_host(map_location):
        return _load(f, map_location, *args, **kwargs)
    loaded = _load(f, place, *args, **kwargs)
    return tree_map_only(torch.Tensor, lambda tensor: _move(tensor, targets), loaded) if targets else loaded


def _only_host(map_location: Any) -> bool:
    return isinstance(map_location, (str, torch.device)) and index_of(map_location) is None


def _wanted(map_location: Any, storage: Any, location: str) -> Any:
    if map_location is None:
        return location
    if isinstance(map_location, dict):
        return map_location.get(location, location)
    if callable(map_location):
        return map_location(storage, location)
    return map_location


def _move(tensor: torch.Tensor, targets: dict[int, int]) -> torch.Tensor:
    index = targets.get(tensor.untyped_storage().data_ptr())
    if index is None:
        return tensor
    with torch.no_grad():
        moved = moves.cuda(tensor.detach(), index)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(moved, tensor.requires_grad)
    return moved.requires_grad_(tensor.requires_grad)


def install() -> None:
    """Teach torch to save and load tensors of emulated GPUs."""
    EmulatedTensor.__reduce_ex__ = reduce
    torch.serialization.register_package(5, _label, lambda storage, location: None)
    torch.load = load
