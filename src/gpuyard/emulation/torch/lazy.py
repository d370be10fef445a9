"""Parameters without a shape, as in `LazyLinear`: they remember where they were moved to, and are made there."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parameter import UninitializedTensorMixin

from gpuyard.emulation.torch.moves import index_of, swap

_materialize = UninitializedTensorMixin.materialize


def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
    """Give a parameter or buffer its shape."""
    index = getattr(self, "destination", None) if device is None else index_of(device)
    if index is None:
        _materialize(self, shape, device, dtype)
        return
    made = torch.empty(shape, device=torch.device("cuda", index), dtype=dtype or self.data.dtype)
    if isinstance(self, torch.nn.Parameter):
        made = torch.nn.Parameter(made, self.requires_grad)
    swap(self, made)


def install() -> None:
    """Teach torch's lazy modules about emulated GPUs."""
    UninitializedTensorMixin.materialize = materialize
