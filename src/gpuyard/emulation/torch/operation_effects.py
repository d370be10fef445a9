"""What an operation returns and costs, learned by running it once on torch's shape-only `meta` device."""

from __future__ import annotations

from typing import Any

import torch

from gpuyard.emulation.torch import values
from gpuyard.emulation.torch.cuda_messages import mixed_types
from gpuyard.emulation.torch.tensor import EmulatedTensor, TensorLayout, layout_of
from gpuyard.emulation.torch.work import work_of
from gpuyard.profiles.costs import operation_costs
from gpuyard.profiles.gpus import GpuKind
from gpuyard.profiles.operations import Work

META = torch.device("meta")
LARGEST_TRIAL = 1 << 28
"""Bytes up to which an operation without a shape-only form is tried on real zeros instead."""


_SAME_TYPE = frozenset({
    "aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm", "aten::convolution", "aten::convolution_overrideable",
})  # fmt: skip
"""Operations that refuse tensors of different types on a GPU, and accept them on the shape-only device."""


class Fresh:
    """A result in memory of its own."""

    __slots__ = ("form", "nbytes")

    def __init__(self, form: TensorLayout) -> None:
        self.form = form
        self.nbytes = form.extent * form.dtype.itemsize


class Alias:
    """A result that is a view of an argument."""

    __slots__ = ("form", "source")

    def __init__(self, form: TensorLayout, source: int) -> None:
        self.form, self.source = form, source


class Same:
    """A result that is an argument itself."""

    __slots__ = ("source",)

    def __init__(self, source: int) -> None:
        self.source = source


class Reshaped(Alias):
    """A result that is an argument whose layout changes, as by `unsqueeze_` or where `out=` does not fit."""

    __slots__ = ()


class OperationEffect:
    """Results, mutated arguments and work of an operation on arguments of given layouts."""

    __slots__ = ("_seconds", "container", "keeps_values", "mutates", "results", "work")

    def __init__(
        self, container: type | None, results: list[Any], mutates: tuple[int, ...], work: Work | None, keeps: bool
    ) -> None:
        self.container, self.results, self.mutates, self.work, self.keeps_values = (
            container,
            results,
            mutates,
            work,
            keeps,
        )
        self._seconds: dict[str, tuple[float, float]] = {}

    def seconds(self, kind: GpuKind) -> tuple[float, float]:
        """Return what it takes on a GPU in the forward and in the backward pass."""
        found = self._seconds.get(kind.key)
        if found is None:
            found = self._seconds[kind.key] = self._price(kind)
        return found

    def _price(self, kind: GpuKind) -> tuple[float, float]:
        if self.work is None:
            return 0.0, 0.0
        costs = operation_costs(kind)
        return costs.seconds(self.work, "forward"), costs.seconds(self.work, "backward")


def observe_effect(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[Any]) -> OperationEffect:
    """Run an operation on shapes alone and note what it does."""
    types = [tensor.dtype for tensor in tensors]
    if func._schema.name in _SAME_TYPE and len(set(types)) > 1:
        raise RuntimeError(mixed_types(func._schema.name, types))
    mutates = _mutated(func, args, kwargs, tensors)
    shadows = [shapes_only(tensor) for tensor in tensors]
    forms = [layout_of(shadow) for shadow in shadows]
    # There is nothing to learn from an operation that only mutates, and some of those have no shape-only form.
    outcome = _try(func, args, kwargs, shadows) if func._schema.returns else None
    container = type(outcome) if isinstance(outcome, (list, tuple)) else None
    items = outcome if isinstance(outcome, (list, tuple)) else (outcome,)
    if any(isinstance(item, torch.Tensor) and item.layout != torch.strided for item in items):
        raise NotImplementedError(
            f"gpuyard does not emulate {func}: its result is sparse, and emulated tensors are dense"
        )
    results = [_describe(item, shadows, forms) for item in items]
    fresh = [item.form for item in results if type(item) in (Fresh, Reshaped)]
    work = work_of(func, args, kwargs, tensors, fresh, mutates)
    keeps = all(values.worth_keeping(form) for form in fresh) and values.computable(func)
    return OperationEffect(container, results, mutates, work, keeps)


def _mutated(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[Any]) -> tuple[int, ...]:
    """Positions among `tensors` of those that the operation writes to."""
    positions = {id(tensor): position for position, tensor in enumerate(tensors)}
    found = []
    for number, declared in enumerate(func._schema.arguments):
        if declared.alias_info is None or not declared.alias_info.is_write:
            continue
        value = args[number] if number < len(args) else kwargs.get(declared.name)
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if type(item) is EmulatedTensor:
                found.append(positions[id(item)])
    return tuple(found)


def shapes_only(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the same layout on torch's shape-only device."""
    form = tensor.form if type(tensor) is EmulatedTensor else layout_of(tensor)
    if form.offset == 0:
        return torch.empty_strided(form.size, form.stride, dtype=form.dtype, device=META)
    return torch.empty(form.extent, dtype=form.dtype, device=META).as_strided(form.size, form.stride, form.offset)


def _try(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], shadows: list[torch.Tensor]) -> Any:
    try:
        return _run(func, args, kwargs, shadows, META)
    except NotImplementedError:
        if sum(shadow.nbytes for shadow in shadows) > LARGEST_TRIAL:
            raise NotImplementedError(_unknown(func, "is too large to be tried on the host")) from None
    except RuntimeError:
        if sum(shadow.nbytes for shadow in shadows) > LARGEST_TRIAL:
            raise
        # The host refuses in the words that programs know from CUDA, and what it does not refuse is right.
    zeros = [torch.zeros_like(shadow, device="cpu") for shadow in shadows]
    try:
        outcome = _run(func, args, kwargs, zeros, torch.device("cpu"))
    except NotImplementedError:
        raise NotImplementedError(_unknown(func, "does not run on the host")) from None
    moved = [_to_meta(item, zeros, shadows) for item in (outcome if isinstance(outcome, (list, tuple)) else (outcome,))]
    return type(outcome)(moved) if isinstance(outcome, (list, tuple)) else moved[0]


def _unknown(func: Any, reason: str) -> str:
    return f"gpuyard does not emulate {func}: it has no shape-only form in torch {torch.__version__} and {reason}"


def _to_meta(item: Any, zeros: list[torch.Tensor], shadows: list[torch.Tensor]) -> Any:
    if not isinstance(item, torch.Tensor):
        return item
    for zero, shadow in zip(zeros, shadows, strict=True):
        if item is zero:
            return shadow
    return torch.empty_strided(item.shape, item.stride(), dtype=item.dtype, device=META)


def _run(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], stand_ins: list[torch.Tensor], device: torch.device
) -> Any:
    remaining = iter(stand_ins)
    placed = [values.replaced(arg, remaining, device) for arg in args]
    named = {name: values.replaced(arg, remaining, device) for name, arg in kwargs.items()}
    return func(*placed, **named)


def _describe(item: Any, shadows: list[torch.Tensor], forms: list[TensorLayout]) -> Any:
    if not isinstance(item, torch.Tensor):
        return item
    form = layout_of(item)
    for position, shadow in enumerate(shadows):
        if shadow is item:
            return Same(position) if form is forms[position] else Reshaped(form, position)
    storage = item.untyped_storage()._cdata
    for position, shadow in enumerate(shadows):
        if shadow.untyped_storage()._cdata == storage:
            return Alias(form, position)
    return Fresh(form)
