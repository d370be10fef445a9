"""Buckets of gradients, which data-parallel training exchanges at once, and which gradients a pass will bring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false as is_dense

from gpuyard.emulation.torch.moves import onto


class Bucket:
    """Some parameters' gradients, one after the other in one tensor; also what communication hooks are given."""

    def __init__(self, number: int, indices: Sequence[int], parameters: Sequence[Any], *, last: bool) -> None:
        self.indices = list(indices)
        self._number, self._last = number, last
        self._parameters = [parameters[index] for index in indices]
        first = self._parameters[0]
        with onto(first.block.gpu.index):
            self.flat = torch.empty(
                sum(each.numel() for each in self._parameters), dtype=first.dtype, device=first.device
            )
        self.views: list[Any] = []
        offset = 0
        for parameter in self._parameters:
            strides = (
                parameter.stride() if is_dense(parameter) else torch.empty(parameter.shape, device="meta").stride()
            )
            self.views.append(self.flat.as_strided(parameter.shape, strides, offset))
            offset += parameter.numel()
        self.missing = 0
        """Gradients that are still to come in this pass."""
        self.work: Any = None
        """The exchange in flight."""
        self.ready = 0.0
        """Position at which its gradients were complete in this pass."""
        self.share = 1.0
        """How much of the backward pass had to be done for that, as far as passes operation by operation have shown."""

    def fill(self) -> None:
        """Copy the gradients in; parameters without one count as zero."""
        pairs = [
            (view, parameter.grad)
            for view, parameter in zip(self.views, self._parameters, strict=True)
            if parameter.grad is not view
        ]
        present = [pair for pair in pairs if pair[1] is not None]
        absent = [view for view, gradient in pairs if gradient is None]
        if present:
            torch._foreach_copy_([view for view, _ in present], [gradient for _, gradient in present])
        if absent:
            torch._foreach_zero_(absent)

    def hand_out(self, used: Sequence[bool], *, as_views: bool) -> None:
        """Copy the gradients back to their parameters, or let them be views of the bucket."""
        chosen = [
            (view, parameter) for view, parameter, use in zip(self.views, self._parameters, used, strict=True) if use
        ]
        for view, parameter in chosen:
            if as_views:
                parameter.grad = view
            elif parameter.grad is None:
                parameter.grad = torch.empty_like(view)
        if not as_views and chosen:
            torch._foreach_copy_([parameter.grad for _, parameter in chosen], [view for view, _ in chosen])

    def index(self) -> int:
        """Return its number in the order of exchange."""
        return self._number

    def buffer(self) -> Any:
        """Return the tensor that holds all of it."""
        return self.flat

    def set_buffer(self, buffer: Any) -> None:
        """Replace the contents."""
        self.flat.copy_(buffer)

    def gradients(self) -> list[Any]:
        """Return the gradients as views of the buffer."""
        return list(self.views)

    def parameters(self) -> list[Any]:
        """Return the parameters."""
        return list(self._parameters)

    def is_last(self) -> bool:
        """Say whether it is the last one that is exchanged."""
        return self._last


def reached_from(outputs: Sequence[Any]) -> set[int]:
    """Return the identities of all parameters that outputs depend on."""
    found: set[int] = set()
    waiting = [output.grad_fn for output in outputs if output.grad_fn is not None]
    known = set(waiting)
    while waiting:
        node = waiting.pop()
        if hasattr(node, "variable"):
            found.add(id(node.variable))
        for following, _ in node.next_functions:
            if following is not None and following not in known:
                known.add(following)
                waiting.append(following)
    return found
