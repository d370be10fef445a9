"""Tensors on an emulated GPU: a shape, a block of counted memory, and at most a small real copy of their values."""

from __future__ import annotations

import itertools
from copy import deepcopy
from typing import Any, NoReturn

import torch

from gpuyard.emulation.device import Gpu
from gpuyard.emulation.memory import MemoryFullError
from gpuyard.emulation.torch.cuda_messages import out_of_memory
from gpuyard.emulation.torch.state import state

BACKEND = "emu"
"""What the device is called inside torch, and by programs that ask for it by name."""

_addresses = itertools.count(0x7F00_0000_0000, 1 << 21)


class TensorLayout:
    """Size, strides, offset and type of a tensor. Equal layouts are one object, so that they compare by identity."""

    __slots__ = ("dtype", "extent", "nbytes", "numel", "offset", "size", "stride")

    def __init__(self, size: tuple[int, ...], stride: tuple[int, ...], offset: int, dtype: torch.dtype) -> None:
        self.size, self.stride, self.offset, self.dtype = size, stride, offset, dtype
        self.numel = 1
        for length in size:
            self.numel *= length
        self.nbytes = self.numel * dtype.itemsize
        last = sum((length - 1) * step for length, step in zip(size, stride, strict=True))
        self.extent = offset + last + 1 if self.numel else 0
        """Elements that a storage must have to hold it."""


layouts: dict[tuple[Any, ...], TensorLayout] = {}


def layout_of(tensor: torch.Tensor) -> TensorLayout:
    """Return the layout of any tensor."""
    key: Any = (tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.dtype)
    found = layouts.get(key)
    if found is None:
        found = layouts[key] = TensorLayout(*key)
    return found


class Block:
    """Memory that one or several views share, for as long as one of them lives."""

    __slots__ = ("__weakref__", "_address", "gpu", "guess", "kinds", "nbytes", "size", "step", "values")

    def __init__(self, gpu: Gpu, nbytes: int) -> None:
        self.nbytes = nbytes
        self.size = 0
        """What it takes of the GPU: its bytes, rounded."""
        self.gpu = gpu
        self.values: torch.Tensor | None = None
        """A flat copy on the host of everything in it, where values are kept."""
        self.guess: bool | None = None
        """What booleans in it are taken for where they are unknown."""
        self.kinds: int | None = None
        """How many different values it has at most, of unknown ones that were picked from known ones."""
        self.step = state.steps
        """How many training steps were done when its contents were made: a loss made up for it goes by that."""
        self._address = 0
        try:
            self.size = gpu.memory.take(nbytes)
        except MemoryFullError:
            self._make_room(nbytes)

    def _make_room(self, nbytes: int) -> None:
        """Do what CUDA does when memory is full: wait, return what is cached, try once more."""
        self.gpu.synchronize()
        memory = self.gpu.memory
        memory.retries += 1
        memory.trim()
        try:
            self.size = memory.take(nbytes)
        except MemoryFullError as full:
            memory.refusals += 1
            raise torch.OutOfMemoryError(out_of_memory(self.gpu, full.wanted)) from None

    def __del__(self) -> None:
        self.gpu.memory.give_back(self.size)

    @property
    def address(self) -> int:
        """Return a number that no other block has, for programs that ask where a tensor lies."""
        if not self._address:
            self._address = next(_addresses)
        return self._address


class Storage:
    """What `tensor.untyped_storage()` answers: enough to tell which tensors share memory."""

    def __init__(self, block: Block, device: torch.device) -> None:
        self.block, self.device = block, device

    def data_ptr(self) -> int:
        """Return the block's address."""
        return self.block.address

    def nbytes(self) -> int:
        """Return the block's size."""
        return self.block.nbytes

    size = __len__ = nbytes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Storage) and other.block is self.block

    def __hash__(self) -> int:
        return hash(self.block)


class EmulatedTensor(torch.Tensor):
    """A tensor on an emulated GPU. Every operation on it goes to `dispatch`.

    It has no slots: torch can then turn a parameter of the host into one of these without making it another object.
    """

    form: TensorLayout
    block: Block

    __torch_function__ = torch._C._disabled_torch_function_impl

    @property
    def gpu(self) -> Gpu:
        """Return the GPU that holds it."""
        return self.block.gpu

    def data_ptr(self) -> int:
        """Return an address that differs between blocks of memory."""
        return self.block.address + self.form.offset * self.form.dtype.itemsize

    def untyped_storage(self) -> Any:
        """Return what identifies its memory."""
        return Storage(self.block, self.device)

    storage = _typed_storage = untyped_storage

    def numpy(self, *, force: bool = False) -> Any:
        """Refuse, as CUDA does, unless forced."""
        return self.detach().cpu().numpy() if force else _refuse_numpy(self)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        _refuse_numpy(self)

    def get_device(self) -> int:
        """Return the index of its GPU."""
        return self.block.gpu.index

    def record_stream(self, stream: Any) -> None:
        """Do nothing: memory is given back when its last tensor dies, whichever stream used it."""

    def share_memory_(self) -> Any:
        """Do nothing, as for every CUDA tensor."""
        return self

    def is_shared(self) -> bool:
        """Return True, as for every CUDA tensor."""
        return True

    def __copy__(self) -> Any:
        copy = self.detach()
        is_parameter = isinstance(self, torch.nn.Parameter)
        return torch.nn.Parameter(copy, self.requires_grad) if is_parameter else copy.requires_grad_(self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment"
            )
        with torch.no_grad():
            copy = self.detach().clone()
        if isinstance(self, torch.nn.Parameter):
            copy = torch.nn.Parameter(copy, self.requires_grad)
        else:
            copy.requires_grad_(self.requires_grad)
        if self.grad is not None:
            copy.grad = self.grad.__deepcopy__(memo)
        own = {name: value for name, value in vars(self).items() if name not in ("block", "form")}
        vars(copy).update(deepcopy(own, memo))
        memo[id(self)] = copy
        return copy


def _refuse_numpy(tensor: torch.Tensor) -> NoReturn:
    raise TypeError(
        f"can't convert {tensor.device} device type tensor to numpy. "
        "Use Tensor.cpu() to copy the tensor to host memory first."
    )


_make = torch.Tensor._make_wrapper_subclass
_strided = torch.strided
_device: torch.device | None = None


def set_backend_device(device: torch.device) -> None:
    """Say what torch calls the device, once the backend has its name."""
    global _device  # noqa: PLW0603 - torch has one such device per process
    _device = device


def wrap(form: TensorLayout, block: Block) -> EmulatedTensor:
    """Make a tensor of this layout in this block."""
    tensor: EmulatedTensor = _make(
        EmulatedTensor, form.size, form.stride, form.offset, None, form.dtype, _strided, _device
    )
    tensor.form = form
    tensor.block = block
    return tensor


def view(form: TensorLayout, tensor: EmulatedTensor) -> EmulatedTensor:
    """Make a tensor of this layout in another's block; like that one it can have gradients, even in inference mode."""
    if torch.is_inference_mode_enabled() and not tensor.is_inference():
        with torch.inference_mode(mode=False):
            return wrap(form, tensor.block)
    return wrap(form, tensor.block)


_data = torch._C.TensorBase.data


def become(tensor: EmulatedTensor, other: EmulatedTensor) -> None:
    """Give a tensor the layout and the memory of another, without making it another object."""
    _data.__set__(tensor, other)
    tensor.form, tensor.block = other.form, other.block


def reshape(tensor: EmulatedTensor, form: TensorLayout) -> EmulatedTensor:
    """Give a tensor another layout, in its memory if that is large enough."""
    nbytes, block = form.extent * form.dtype.itemsize, tensor.block
    become(tensor, wrap(form, block if nbytes <= block.size else Block(block.gpu, nbytes)))
    return tensor


def new(form: TensorLayout, gpu: Gpu) -> EmulatedTensor:
    """Make a tensor in memory of its own."""
    return wrap(form, Block(gpu, form.extent * form.dtype.itemsize))
