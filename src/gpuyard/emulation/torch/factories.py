"""Functions that make tensors: each understands 'cuda', 'cuda:1' and 'emu', and follows its tensor to its GPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._device import DeviceContext, _device_constructors

from gpuyard.emulation.torch import pinned
from gpuyard.emulation.torch.dispatch import forget
from gpuyard.emulation.torch.moves import index_of, inside_device, onto
from gpuyard.emulation.torch.tensor import EmulatedTensor


def on_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a factory understand emulated GPUs."""

    @functools.wraps(function)
    def factory(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        pin = kwargs.pop("pin_memory", None)
        index = index_of(device) if device is not None else None
        if index is not None:
            kwargs["device"] = inside_device()
            with onto(index):
                return function(*args, **kwargs)
        made = function(*args, **kwargs)
        return pinned.pin(made) if pin else made

    return factory


def new_on_device(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let `Tensor.new_…` stay on its tensor's GPU unless told otherwise."""

    @functools.wraps(method)
    def factory(self: Any, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is None:
            if type(self) is not EmulatedTensor:
                return method(self, *args, **kwargs)
            index: int | None = self.block.gpu.index
        else:
            index = index_of(device)
        if index is None:
            return method(self, *args, **kwargs)
        kwargs["device"] = inside_device()
        with onto(index):
            return method(self, *args, **kwargs)

    return factory


_default_device = DeviceContext.__torch_function__


def _with_default_device(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    kwargs = kwargs or {}
    index = index_of(self.device)
    if index is None or func not in _device_constructors() or kwargs.get("device") is not None:
        return _default_device(self, func, types, args, kwargs)
    kwargs["device"] = inside_device()
    with onto(index):
        return func(*args, **kwargs)


_LIKE = ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like")


def _like_on_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let `torch.…_like` follow its tensor to its GPU."""

    @functools.wraps(function)
    def factory(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is None and type(tensor) is not EmulatedTensor:
            return function(tensor, *args, **kwargs)
        index = tensor.block.gpu.index if device is None else index_of(device)
        if index is None:
            return function(tensor, *args, **kwargs)
        if device is not None:
            kwargs["device"] = inside_device()
        with onto(index):
            return function(tensor, *args, **kwargs)

    return factory


_default_dtype = torch.set_default_dtype


def _set_default_dtype(d: torch.dtype, /) -> None:
    """Let factories make another type from now on: what was learned of them holds no longer."""
    _default_dtype(d)
    forget()


def install() -> None:
    """Teach torch's factories about emulated GPUs."""
    constructors = _device_constructors()
    wrapped: dict[Any, Any] = {}
    for module in (torch, torch.fft):
        for name in dir(module):
            function = getattr(module, name, None)
            if not callable(function) or isinstance(function, type) or name.startswith("__"):
                continue
            if name in _LIKE:
                setattr(module, name, _like_on_device(function))
            elif _is_one_of(function, constructors):
                wrapped[function] = on_device(function)
                setattr(module, name, wrapped[function])
    constructors.update(wrapped.values())
    torch.normal = on_device(torch.normal)  # a factory only where it is given a size, so torch does not list it
    for name in ("new_empty", "new_full", "new_ones", "new_tensor", "new_zeros", "new_empty_strided"):
        setattr(torch.Tensor, name, new_on_device(getattr(torch.Tensor, name)))
    torch.set_default_dtype = _set_default_dtype
    DeviceContext.__torch_function__ = _with_default_device
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(…) then moves where our kernels see it


def _is_one_of(function: Any, functions: set[Any]) -> bool:
    try:
        return function in functions
    except TypeError:  # some callables have no hash
        return False
