"""Where tensors go: every call that names a device understands 'cuda', 'cuda:1' and 'emu' as emulated GPUs.

Inside torch there is one emulated device. Which GPU a tensor is on is known to its block; a factory or move that names
a GPU passes its index on the side (`state.target`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.parameter import UninitializedTensorMixin

from gpuyard.emulation.torch import pinned
from gpuyard.emulation.torch.operation_effects import shapes_only
from gpuyard.emulation.torch.specials import between
from gpuyard.emulation.torch.state import state
from gpuyard.emulation.torch.tensor import BACKEND, EmulatedTensor, become, layout_of, new
from gpuyard.emulation.torch.values import keep, known


def index_of(device: Any) -> int | None:
    """Return the index of the emulated GPU that a device names, or None if it is not one."""
    if device is None or isinstance(device, bool):
        return None
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        if not device.startswith(("cuda", BACKEND)):
            return None
        device = torch.device(device)
    if device.type not in ("cuda", BACKEND):
        return None
    return state.current if device.index is None else int(device.index)


@contextmanager
def onto(index: int) -> Iterator[None]:
    """Let factories inside put their tensors on a GPU."""
    outer, state.target = state.target, index
    try:
        yield
    finally:
        state.target = outer


def inside_device() -> torch.device:
    """Return what torch calls the emulated device."""
    return torch.device(BACKEND, 0)


class _Between(torch.autograd.Function):
    """A move from one GPU to another, and of the gradient back."""

    @staticmethod
    def forward(ctx: Any, source: Any, index: int) -> Any:
        ctx.origin = source.block.gpu.index
        return _moved(source, index)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return _moved(gradients[0], ctx.origin), None


class _ToHost(torch.autograd.Function):
    """A move to the host, and of the gradient back to the GPU that it belongs to."""

    @staticmethod
    def forward(ctx: Any, source: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        ctx.origin, ctx.dtype = source.block.gpu.index, source.dtype
        return _to(source, *args, **kwargs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return to(gradients[0], torch.device(BACKEND, ctx.origin), ctx.dtype), None, None


def _moved(source: Any, index: int) -> Any:
    target = state.gpu(index)
    moved = new(layout_of(torch.empty_like(shapes_only(source))), target)
    between(source.block.gpu, target, source.form.nbytes)
    contents = known(source)
    if contents is not None:
        keep(moved.block, moved.form, contents)
    return moved


_to = torch.Tensor.to


def to(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Move or convert a tensor: `Tensor.to` with emulated GPUs."""
    wanted = kwargs.get("device")
    by_position = False
    if wanted is None and args:
        wanted = args[0]
        by_position = True
        if isinstance(wanted, torch.Tensor):
            args = (wanted.device, wanted.dtype, *args[1:])
            wanted = args[0]
    if not isinstance(wanted, (str, torch.device, int)):
        return _to(self, *args, **kwargs)
    index = index_of(wanted)
    if index is None:
        if type(self) is EmulatedTensor and self.requires_grad and torch.is_grad_enabled():
            return _ToHost.apply(self, args, kwargs)
        return _to(self, *args, **kwargs)
    if isinstance(self, UninitializedTensorMixin):
        self.destination = index  # there is nothing to move yet
        return self
    inside = inside_device()
    if by_position:
        args = (inside, *args[1:])
    else:
        kwargs["device"] = inside
    if type(self) is EmulatedTensor and self.block.gpu.index != index:
        self = _Between.apply(self, index)
    with onto(index):
        return _to(self, *args, **kwargs)


def cpu(self: Any, memory_format: torch.memory_format = torch.preserve_format) -> Any:
    """Move a tensor to the host."""
    return to(self, "cpu", memory_format=memory_format)


def cuda(
    self: Any,
    device: Any = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> Any:
    """Move a tensor to a GPU."""
    index = state.current if device is None else index_of(device)
    if index is None:
        raise ValueError(f"Invalid device, must be cuda device, got {device}")
    return to(self, torch.device(BACKEND, index), non_blocking=non_blocking, memory_format=memory_format)


_data = torch._C.TensorBase.data


def set_data(self: Any, value: Any) -> None:
    """Assign `tensor.data`, which may move a tensor to a GPU and back without making it another object."""
    if type(self) is not EmulatedTensor and type(value) is not EmulatedTensor:
        _data.__set__(self, value)
    elif type(self) is type(value):
        become(self, value)
    else:
        moved = value.detach()
        is_parameter = isinstance(self, torch.nn.Parameter)
        moved = (
            torch.nn.Parameter(moved, self.requires_grad) if is_parameter else moved.requires_grad_(self.requires_grad)
        )
        if self.grad is not None:
            moved.grad = self.grad.detach().to(value.device, value.dtype)
        vars(moved).update({name: held for name, held in vars(self).items() if name not in ("block", "form")})
        swap(self, moved)


def swap(one: torch.Tensor, other: torch.Tensor) -> None:
    """Exchange what two objects are; unlike torch's own swap also where a graph still holds the tensor."""
    one.__class__, other.__class__ = other.__class__, one.__class__
    one.__dict__, other.__dict__ = other.__dict__, one.__dict__
    torch._C._swap_tensor_impl(one, other)


def _parsing(parse: Callable[..., Any]) -> Callable[..., Any]:
    """Let `Module.to(tensor)` find the GPU of the tensor."""

    def parse_to(*args: Any, **kwargs: Any) -> Any:
        like = args[0] if args else kwargs.get("tensor")
        if type(like) is EmulatedTensor:
            kwargs.pop("tensor", None)
            args = (like.device, like.dtype, *args[1:])
        return parse(*args, **kwargs)

    return parse_to


_compatible_type = torch._has_compatible_shallow_copy_type


def _has_compatible_type(input, from_):  # type: ignore[no-untyped-def]
    """Say yes of a GPU's tensors: modules then move by assigning to `data`, and parameters stay the same objects."""
    emulated = type(input) is EmulatedTensor or type(from_) is EmulatedTensor
    return emulated or _compatible_type(input, from_)


_has_compatible_type.__annotations__ = {"input": torch.Tensor, "from_": torch.Tensor, "return": bool}
"""torch's compiler compares signatures, which therefore must be types and not their names."""


def _pin_memory(self: Any, device: Any = None) -> torch.Tensor:
    return pinned.pin(self)


def _is_pinned(self: Any, device: Any = None) -> bool:
    return type(self) is not EmulatedTensor and pinned.is_pinned(self)


def install() -> None:
    """Teach torch's moves about emulated GPUs."""
    torch.Tensor.to = to
    torch.Tensor.data = property(_data.__get__, set_data)
    torch._has_compatible_shallow_copy_type = _has_compatible_type
    torch._C._nn._parse_to = _parsing(torch._C._nn._parse_to)
    torch.Tensor.cuda, torch.Tensor.cpu = cuda, cpu
    torch.Tensor.pin_memory, torch.Tensor.is_pinned = _pin_memory, _is_pinned
