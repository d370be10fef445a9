"""Registers the emulated device with torch, under the name it keeps for devices it does not know."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from gpuyard.emulation.torch import attention, cells, fills, reading, recurrent, sizes, specials, unknown_booleans  # noqa: F401 - they add to the tensor and to the table of operations
from gpuyard.emulation.torch.dispatch import dispatch
from gpuyard.emulation.torch.tensor import BACKEND, set_backend_device

_FACTORIES = (
    "arange", "arange.start", "arange.start_step", "eye", "eye.m", "full", "linspace", "logspace", "ones", "randperm",
    "randperm.generator", "range", "range.step", "scalar_tensor", "tril_indices", "triu_indices", "zeros",
)  # fmt: skip
"""Factories that torch would compose from a resize of an empty tensor, or from several operations."""

_libraries: list[Any] = []
"""Registrations last as long as these live."""


class _Hooks(torch._C._acc.PrivateUse1Hooks):
    def is_available(self) -> bool:
        return True

    def has_primary_context(self, index: int) -> bool:
        return True

    def is_built(self) -> bool:
        return True


_lost: list[BaseException] = []
"""An exception that was on its way out of a backward pass."""


class _Probe:
    """Something to call: Python looks for a pending exception after calls of objects, not after those of functions."""

    def __call__(self) -> None: ...


_probe = _Probe()


class _Guard(torch._C._acc.DeviceGuard):
    """Tells torch which device it guards, also while an exception passes through the autograd engine.

    torch then asks with the exception pending, and aborts the process if it still is afterwards. So it is caught here,
    and raised again at the end of the backward pass.
    """

    def type_(self) -> Any:
        try:
            _probe()
        except SystemError as found:
            _lost[:] = [found.__cause__ or found]
        return torch._C._autograd.DeviceType.PrivateUse1


def _raising_what_was_lost(run_backward: Any) -> Any:
    @functools.wraps(run_backward)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return run_backward(*args, **kwargs)
        except SystemError:
            if _lost:
                raise _lost.pop() from None
            raise

    return run


def register(device_module: Any) -> None:
    """Make torch know the device; it answers questions about it from `device_module`."""
    _setup_privateuseone_for_python_backend(
        rename=BACKEND, backend_module=device_module, hook=_Hooks(), device_guard=_Guard()
    )
    set_backend_device(torch.device(BACKEND, 0))
    run_backward = _raising_what_was_lost(torch.autograd.graph._engine_run_backward)
    torch.autograd._engine_run_backward = torch.autograd.graph._engine_run_backward = run_backward
    fallback = torch.library.Library("_", "IMPL")
    fallback.fallback(_kernel, "PrivateUse1")
    factories = torch.library.Library("aten", "IMPL")
    for name in _FACTORIES:
        overload = getattr(torch.ops.aten, name.split(".")[0])
        operation = getattr(overload, name.split(".")[1] if "." in name else "default")
        factories.impl(name, _bound(operation), "PrivateUse1")
    factories.impl("scaled_dot_product_attention", attention.attend, "AutogradPrivateUse1")
    for name, stand_in in recurrent.STAND_INS.items():
        factories.impl(name, stand_in, "AutogradPrivateUse1")
    _libraries.extend([fallback, factories])


def _kernel(operation: Any, *args: Any, **kwargs: Any) -> Any:
    return dispatch(operation, args, kwargs)


def _bound(operation: Any) -> Any:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return dispatch(operation, args, kwargs)

    return kernel
