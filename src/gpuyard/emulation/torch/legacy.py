"""`torch.cuda.FloatTensor` and its like, by which older programs name a type and a GPU at once."""

from __future__ import annotations

from typing import Any

import torch

from gpuyard.emulation.torch import moves
from gpuyard.emulation.torch.tensor import EmulatedTensor

_NAMES = {
    "Float": torch.float32, "Double": torch.float64, "Half": torch.float16, "BFloat16": torch.bfloat16,
    "Byte": torch.uint8, "Char": torch.int8, "Short": torch.int16, "Int": torch.int32, "Long": torch.int64,
    "Bool": torch.bool,
}  # fmt: skip


class _TensorType(type):
    """The type of these types: an emulated tensor is an instance by its dtype."""

    dtype: torch.dtype

    def __instancecheck__(cls, instance: object) -> bool:
        return type(instance) is EmulatedTensor and instance.dtype == cls.dtype

    def __call__(cls, *args: Any) -> Any:
        host = getattr(torch, cls.__name__)
        return moves.cuda(host(*args))


_kinds: dict[str, _TensorType] = {}
"""By full name."""


def _type(self: Any, dtype: Any = None, non_blocking: bool = False, **_: Any) -> Any:
    """Name a tensor's type, or convert it to a type that is named."""
    if dtype is None:
        return _name(self) if type(self) is EmulatedTensor else _original(self)
    kind = _kinds.get(dtype) if isinstance(dtype, str) else dtype
    if isinstance(kind, _TensorType):
        return moves.cuda(self, non_blocking=non_blocking).to(kind.dtype)
    if type(self) is EmulatedTensor and not isinstance(dtype, torch.dtype):
        return _original(self.cpu(), dtype)
    return self.to(dtype) if isinstance(dtype, torch.dtype) else _original(self, dtype, non_blocking)


_original = torch.Tensor.type


def _name(tensor: torch.Tensor) -> str:
    named = next((name for name, kind in _kinds.items() if kind.dtype == tensor.dtype), None)
    return named or f"torch.cuda.{str(tensor.dtype).removeprefix('torch.')}"


_set_default = torch.set_default_tensor_type


def _set_default_tensor_type(kind: Any) -> None:
    """Make new tensors of a type, and on the GPU if it names one."""
    found = _kinds.get(kind) if isinstance(kind, str) else kind
    if isinstance(found, _TensorType):
        torch.set_default_dtype(found.dtype)
        torch.set_default_device("cuda")
    else:
        torch.set_default_device(None)
        _set_default(kind)


def install() -> None:
    """Put the types into `torch.cuda`."""
    for prefix, dtype in _NAMES.items():
        name = f"{prefix}Tensor"
        kind = _TensorType(name, (), {"dtype": dtype, "is_cuda": True, "__module__": "torch.cuda"})
        _kinds[f"torch.cuda.{name}"] = kind
        setattr(torch.cuda, name, kind)
    torch.Tensor.type = _type
    torch.set_default_tensor_type = _set_default_tensor_type
