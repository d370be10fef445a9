"""One wait per pass, for models whose steps are shorter than the host needs to emulate their operations one by one.

A model's first passes run operation by operation and are measured. If the host was slower than the GPU would be, later
passes on inputs of the same shapes are one operation with the same results, duration and memory. A model whose passes
do more than that, or that passes several times in one training step, is never cut short.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules import module as nn_module
from torch.utils import _pytree as pytree

from gpuyard.emulation.device import Gpu
from gpuyard.emulation.torch.state import state
from gpuyard.emulation.torch.tensor import Block, EmulatedTensor, TensorLayout, layout_of, new

TRIALS = 3
"""Passes that are measured before it is decided; the first of them learns the shapes and is slow."""

_VALUES = (torch.Tensor, int, float, str, type(None), torch.dtype, torch.device)
"""Types of arguments that a pass cannot change behind one's back."""


class PassRecord:
    """What a model does with inputs of given shapes."""

    def __init__(self) -> None:
        self.trials = 0
        self.possible = True
        self.trains = torch.is_grad_enabled()
        self.host_s = float("inf")
        self.forward_s = self.backward_s = self.after_forward_s = 0.0
        """Device seconds, unscaled: of the forward pass, of the backward pass, and of all until the step's end."""
        self.forms: list[TensorLayout] = []
        self.structure: Any = None
        self.saved_bytes = 0
        self.with_gradient: list[bool] = []

    @property
    def is_short(self) -> bool:
        """Whether the host takes longer than the GPU."""
        device_s = self.forward_s + self.after_forward_s
        return self.possible and self.trials >= TRIALS and 0.0 < device_s < self.host_s


class WholePasses:
    """Decides how the passes of one model are carried out."""

    def __init__(self) -> None:
        self._records: dict[Any, PassRecord] = {}
        self._running: tuple[PassRecord, weakref.ref[torch.nn.Module], Gpu, bool] | None = None
        """Refers to the model weakly, so that a program that drops it gets its memory back."""
        self._busy = self._began = 0.0

    def run(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], original: Callable[..., Any]
    ) -> Any:
        """Carry out a forward pass."""
        granularity = state.session.settings.granularity if state.session else "op"
        leaves = pytree.tree_leaves((args, kwargs))
        inputs = [leaf for leaf in leaves if type(leaf) is EmulatedTensor]
        if self._running is not None:
            self._called_again(self._running[0])
        if granularity == "op" or not inputs or _is_watched(module):
            return original(module, *args, **kwargs)
        key = (
            tuple(leaf.form if type(leaf) is EmulatedTensor else str(leaf) for leaf in leaves),
            module.training, torch.is_grad_enabled(), torch.is_autocast_enabled("cuda"),
        )  # fmt: skip
        record = self._records.setdefault(key, PassRecord())
        gpu = inputs[0].block.gpu
        # Behind a gate nobody could get in between: there a pass stays many launches unless somebody asks for one.
        asked_for = granularity == "pass" and record.possible and record.trials >= TRIALS
        short = asked_for or (record.is_short and gpu.gate is None)
        self._began, before, memory = _host_time(gpu), gpu.timeline.busy, gpu.memory.allocated
        if short:
            output = _replay(record, module, gpu, inputs)
        else:
            attributes = _attributes(module) if record.trials < TRIALS else None
            output = original(module, *args, **kwargs)
            record.forward_s = (gpu.timeline.busy - before) / state.seconds_scale
            _describe(record, output, gpu.memory.allocated - memory)
            if attributes and (
                attributes != _attributes(module) or not all(isinstance(leaf, _VALUES) for leaf in leaves)
            ):
                record.possible = False
        self._busy, self._running = gpu.timeline.busy, (record, weakref.ref(module), gpu, short)
        return output

    def _called_again(self, record: PassRecord) -> None:
        """Give up on a model that is called again before the optimizer's step: which backward pass is whose is open."""
        record.possible = record.possible and not record.trains
        self.finish_step()

    def before_step(self) -> None:
        """Note how long the backward pass took, when the optimizer begins."""
        if self._running is not None and not self._running[3]:
            record, model, gpu, _ = self._running
            module = model()
            record.backward_s = (gpu.timeline.busy - self._busy) / state.seconds_scale
            if module is not None:
                record.with_gradient = [parameter.grad is not None for parameter in module.parameters()]

    def finish_step(self) -> None:
        """Compare what the host took with what the GPU would take."""
        if self._running is None:
            return
        record, model, gpu, short = self._running
        self._running = None
        after_forward = (gpu.timeline.busy - self._busy) / state.seconds_scale
        if short:
            # The loss is still computed operation by operation: what it takes is no part of the one wait.
            record.backward_s = max(0.0, record.backward_s + record.after_forward_s - after_forward)
            return
        record.after_forward_s = after_forward
        record.trials += 1
        record.host_s = min(record.host_s, _host_time(gpu) - self._began)
        if record.trials == TRIALS and record.is_short and gpu.gate is None and state.session is not None:
            state.session.report.one_wait_per_pass = type(model()).__name__


def _is_watched(module: torch.nn.Module) -> bool:
    """Say whether somebody wants to know when the parts of a model run."""
    if nn_module._global_forward_hooks or nn_module._global_forward_pre_hooks:
        return True
    return any(
        each._forward_hooks or each._forward_pre_hooks or each._backward_hooks or each._backward_pre_hooks
        for each in module.modules()
    )


def _attributes(module: torch.nn.Module) -> list[tuple[str, int, int]]:
    """Return what tells whether a pass changed an attribute of the model, such as a counter or a cache."""
    return [
        (name, id(value), len(value) if isinstance(value, (list, dict, set)) else 0)
        for each in module.modules()
        for name, value in vars(each).items()
    ]


def _host_time(gpu: Gpu) -> float:
    """Return the clock without what the host has waited for the GPU."""
    return gpu.clock.now() - gpu.waited


def _describe(record: PassRecord, output: Any, held: int) -> None:
    """Note what a pass returned and kept in memory; a pass whose results have values is never replaced."""
    leaves, record.structure = pytree.tree_flatten(output)
    if not leaves or any(type(leaf) is not EmulatedTensor or leaf.block.values is not None for leaf in leaves):
        record.possible = False
        return
    record.forms = [
        layout_of(torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device="meta")) for leaf in leaves
    ]
    record.saved_bytes = max(0, held - sum(form.nbytes for form in record.forms))


def _replay(record: PassRecord, module: torch.nn.Module, gpu: Gpu, inputs: list[Any]) -> Any:
    parameters = list(module.parameters())
    results = _OnePass.apply(record, gpu, len(inputs), *inputs, *parameters)
    return pytree.tree_unflatten(list(results), record.structure)


class _OnePass(torch.autograd.Function):
    """A whole model as one operation."""

    @staticmethod
    def forward(ctx: Any, record: PassRecord, gpu: Gpu, count: int, *tensors: Any) -> Any:
        gpu.launch(record.forward_s * state.seconds_scale)
        ctx.record, ctx.gpu, ctx.count = record, gpu, count
        ctx.forms = [tensor.form for tensor in tensors]
        ctx.saved = Block(gpu, record.saved_bytes) if any(ctx.needs_input_grad) else None
        results = tuple(new(form, gpu) for form in record.forms)
        ctx.mark_non_differentiable(*(result for result in results if not result.dtype.is_floating_point))
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        begin = ctx.gpu.mark(ctx.gpu.current)
        ctx.gpu.launch(ctx.record.backward_s * state.seconds_scale)
        state.whole_backward = begin, ctx.gpu.current.tail
        ctx.saved = None
        wanted = [True] * ctx.count + (ctx.record.with_gradient or [True] * (len(ctx.forms) - ctx.count))
        made = [
            new(form, ctx.gpu) if needed and used else None
            for form, needed, used in zip(ctx.forms, ctx.needs_input_grad[3:], wanted, strict=True)
        ]
        return None, None, None, *made
