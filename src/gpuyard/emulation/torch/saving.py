"""Checkpoints: files have the size and the form of real ones, and say that their tensors came from a GPU.

Values that nobody has are zeros. A file saved under emulation loads anywhere, and one saved on a real GPU loads here.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from gpuyard.emulation.torch import moves
from gpuyard.emulation.torch.moves import index_of
from gpuyard.emulation.torch.state import state
from gpuyard.emulation.torch.tensor import Block, EmulatedTensor, layout_of, wrap

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
        block.gpu.copy_to_host(block.nbytes)
        flat = block.values
        if flat is None:
            flat = torch.zeros(-(-block.nbytes // form.dtype.itemsize), dtype=form.dtype)
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


_load, _rebuild = torch.load, torch._utils._rebuild_tensor
_arriving: dict[int, Block | int] = {}
"""By host storage that was loaded and still lives: the GPU it belongs to, then its block there, which tensors share."""


class _Arrival:
    """A storage that is being loaded, as a `map_location` function sees it: it can be sent to a GPU."""

    def __init__(self, storage: Any) -> None:
        self.storage = storage

    def __getattr__(self, name: str) -> Any:
        return getattr(self.storage, name)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> torch.device:
        """Say where it goes."""
        index = state.current if device is None else index_of(device)
        assert index is not None
        return torch.device("cuda", index)


def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Load a file onto the host, and each tensor that belongs on a GPU from there."""

    def place(storage: Any, location: str) -> Any:
        wanted = _wanted(map_location, storage, location)
        if isinstance(wanted, _Arrival):
            return wanted.storage
        if wanted is None or isinstance(wanted, (str, torch.device)):
            index = index_of(wanted)
            if index is not None:
                _arriving[storage._cdata] = index
                weakref.finalize(storage, _arriving.pop, storage._cdata, None)
            return storage
        return wanted

    if isinstance(map_location, (str, torch.device)) and index_of(map_location) is None:
        return _load(f, map_location, *args, **kwargs)
    return _load(f, place, *args, **kwargs)


def _wanted(map_location: Any, storage: Any, location: str) -> Any:
    if map_location is None:
        return location
    if isinstance(map_location, dict):
        return map_location.get(location, location)
    if callable(map_location):
        return map_location(_Arrival(storage), location)
    return map_location


def rebuild(storage: Any, offset: int, size: Any, stride: Any) -> torch.Tensor:
    """Make a tensor of a storage that is being loaded, where it belongs."""
    host = _rebuild(storage, offset, size, stride)
    untyped = storage._untyped_storage
    place = _arriving.get(untyped._cdata)
    if place is None:
        return host
    if isinstance(place, int):
        whole = torch.empty(0, dtype=host.dtype).set_(untyped)
        place = _arriving[untyped._cdata] = moves.cuda(whole, place).block
    return wrap(layout_of(host), place)


def install() -> None:
    """Teach torch to save and load tensors of emulated GPUs."""
    EmulatedTensor.__reduce_ex__ = reduce
    torch.serialization.register_package(5, _label, lambda storage, location: None)
    torch.load = torch.serialization.load = load
    torch._utils._rebuild_tensor = rebuild
