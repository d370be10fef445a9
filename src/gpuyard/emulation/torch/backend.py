"""Registers the emulated device with torch, under the name it keeps for devices it does not know."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from gpuyard.emulation.torch import attention, reading, recurrent, specials  # noqa: F401 - they add to the tensor and to the table of operations
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

    def has_primary_context(self, index: int) -> bool:  # noqa: ARG002
        return True

    def is_built(self) -> bool:
        return True


class _Guard(torch._C._acc.DeviceGuard):
    def type_(self) -> Any:
        return torch._C._autograd.DeviceType.PrivateUse1


def register(device_module: Any) -> None:
    """Make torch know the device; it answers questions about it from `device_module`."""
    _setup_privateuseone_for_python_backend(
        rename=BACKEND, backend_module=device_module, hook=_Hooks(), device_guard=_Guard()
    )
    set_backend_device(torch.device(BACKEND, 0))
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
