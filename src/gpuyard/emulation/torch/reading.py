"""How a program reads numbers from an emulated tensor: real ones where they are kept, made-up ones elsewhere."""

from __future__ import annotations

from typing import Any

import torch

from gpuyard.emulation.torch import synthetic_values, values
from gpuyard.emulation.torch.tensor import EmulatedTensor


def item(self: EmulatedTensor) -> Any:
    """Return the one number of a tensor; marked if it is made up."""
    number = torch._C.TensorBase.item(self)
    return number if values.known(self) is not None else synthetic_values.marked(number)


def tolist(self: EmulatedTensor) -> Any:
    """Return the numbers as nested lists."""
    return self.detach().cpu().tolist() if self.dim() else self.item()


def decide(self: EmulatedTensor) -> bool:
    """Let a program branch on a tensor; says once where that happens without a value."""
    number = torch._C.TensorBase.item(self)
    if values.known(self) is None:
        synthetic_values.branched()
    return bool(number)


def show(self: EmulatedTensor, *, tensor_contents: Any = None) -> str:
    """Write a tensor with its numbers, or with its shape where it has none."""
    contents = values.known(self)
    suffix = f", device='{self.device}'"
    suffix += f", grad_fn=<{self.grad_fn.name()}>" if self.grad_fn is not None else ""
    suffix += ", requires_grad=True" if self.requires_grad and self.grad_fn is None else ""
    prefix = "Parameter containing:\n" if isinstance(self, torch.nn.Parameter) else ""
    if contents is None:
        return f"{prefix}tensor(<no values>, size={tuple(self.shape)}, dtype={self.dtype}{suffix})"
    return prefix + repr(contents)[:-1] + suffix + ")"


def write(self: EmulatedTensor, spec: str) -> str:
    """Format a single number as numbers are formatted."""
    return format(self.item(), spec) if self.dim() == 0 else object.__format__(self, spec)


EmulatedTensor.item = item
EmulatedTensor.__format__ = write
EmulatedTensor.tolist = tolist
EmulatedTensor.__bool__ = decide
EmulatedTensor.__repr__ = show
EmulatedTensor.__str__ = show
