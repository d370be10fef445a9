"""Data-parallel training: torch's own DistributedDataParallel, with Python for what it has in C++ below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed
from torch.distributed import BroadcastOptions
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from gpuyard.emulation.torch.process_group import EmulatedGroup
from gpuyard.emulation.torch.reducer import Reducer
from gpuyard.emulation.torch.tensor import Block, EmulatedTensor

dist: Any = torch.distributed

_reducer, _logger = dist.Reducer, dist.Logger
_broadcast, _verify = dist._broadcast_coalesced, dist._verify_params_across_processes
_register_hook, _register_builtin_hook = dist._register_comm_hook, dist._register_builtin_comm_hook


class Logger:
    """Keeps what a program can ask about its DistributedDataParallel."""

    def __init__(self, reducer: Reducer) -> None:
        self._data: dict[str, Any] = {}

    def set_construction_data_and_log(
        self, module: str, device_ids: Any, output_device: int, sync_buffers: bool, has_sync_bn: bool, static: bool
    ) -> None:
        """Note how it was made."""
        self._data.update(module_name=module, broadcast_buffers=sync_buffers, has_sync_bn=has_sync_bn)
        self._data.update(output_device=output_device, static_graph=static)

    def _get_ddp_logging_data(self) -> Any:
        return self

    @property
    def strs_map(self) -> dict[str, str]:
        """Return what is text."""
        return {name: value for name, value in self._data.items() if isinstance(value, str)}

    @property
    def ints_map(self) -> dict[str, int]:
        """Return what is a number."""
        return {name: int(value) for name, value in self._data.items() if not isinstance(value, str)}

    def _set_comm_hook_name(self, name: str) -> None:
        self._data["comm_hook"] = name

    def _set_static_graph(self) -> None:
        self._data["static_graph"] = True

    def _set_uneven_input_join(self) -> None:
        self._data["join_uneven_inputs"] = True

    def set_error_and_log(self, message: str) -> None:
        """Nothing to do: the error is raised."""

    def set_runtime_stats_and_log(self) -> None:
        """Nothing is measured."""


def broadcast_coalesced(group: Any, tensors: Sequence[Any], buffer_size: int, src: int = 0) -> None:
    """Give everybody what one rank has: packed into buffers, sent, and unpacked."""
    if not _are_emulated(tensors):
        _broadcast(_host_part(group), tensors, buffer_size, src)
        return
    options = BroadcastOptions()
    options.rootRank = src
    chunks, _ = dist._compute_bucket_assignment_by_size(tensors, [buffer_size])
    for chunk in chunks:
        members = [tensors[index] for index in chunk]
        gpu, nbytes = members[0].block.gpu, sum(member.form.nbytes for member in members)
        copying = 2 * nbytes / gpu.kind.bandwidth + gpu.kind.kernel_floor_s
        buffer = Block(gpu, nbytes)
        gpu.launch(copying)
        group.broadcast(members, options).wait()
        gpu.launch(copying)
        del buffer


def verify_parameters(group: Any, parameters: Sequence[Any], logger: Any = None) -> None:
    """Refuse models that differ between ranks, in the words of the original."""
    if not _are_emulated(parameters):
        _verify(_host_part(group), parameters, logger)
        return
    device, rank = parameters[0].device, group.rank()
    mine = torch.tensor([len(parameters)], device=device)
    counts = [torch.zeros_like(mine) for _ in range(group.size())]
    dist.all_gather(counts, mine, group=group)
    for other, count in enumerate(counts):
        if int(count) != len(parameters):
            raise RuntimeError(
                f"DDP expects same model across all ranks, but Rank {rank} has {len(parameters)} params, "
                f"while rank {other} has inconsistent {int(count)} params."
            )
    sizes = [(parameter.dim(), *parameter.shape) for parameter in parameters]
    most = torch.tensor([sum(map(len, sizes))], device=device)
    dist.all_reduce(most, op=dist.ReduceOp.MAX, group=group)
    flat = [number for size in sizes for number in size]
    theirs = torch.tensor(flat + [0] * (int(most) - len(flat)), device=device)
    dist.broadcast(theirs, group=group, group_src=0)
    expected = iter(theirs.tolist())
    for index, size in enumerate(sizes):
        if tuple(next(expected) for _ in size) != size:
            raise RuntimeError(
                f"[{rank}]: params[{index}] in this process with sizes {list(size[1:])} appears not to match sizes of "
                "the same param in process 0."
            )


def _are_emulated(tensors: Sequence[Any]) -> bool:
    return bool(tensors) and type(tensors[0]) is EmulatedTensor


def _host_part(group: Any) -> Any:
    """Return the group of gloo's that a model on the host is trained with."""
    return group.on_host() if isinstance(group, EmulatedGroup) else group


def _make_reducer(parameters: Sequence[Any], buckets: Any, limits: Any, group: Any, *args: Any) -> Any:
    if _are_emulated(parameters):
        return Reducer(parameters, buckets, limits, group, *args)
    return _reducer(parameters, buckets, limits, _host_part(group), *args)


def _make_logger(reducer: Any) -> Any:
    return (Logger if isinstance(reducer, Reducer) else _logger)(reducer)


def _add_hook(reducer: Any, hook_state: Any, hook: Any) -> None:
    if isinstance(reducer, Reducer):
        reducer.set_hook(hook_state, hook)
    else:
        _register_hook(reducer, hook_state, hook)


def _add_builtin_hook(reducer: Any, kind: Any) -> None:
    if not isinstance(reducer, Reducer):
        _register_builtin_hook(reducer, kind)
    elif kind == dist.BuiltinCommHookType.FP16_COMPRESS:
        reducer.set_hook(None, default_hooks.fp16_compress_hook)


def install() -> None:
    """Let DistributedDataParallel use the Python parts for models on emulated GPUs, and the original for others."""
    dist.Reducer, dist.Logger = _make_reducer, _make_logger
    dist._broadcast_coalesced, dist._verify_params_across_processes = broadcast_coalesced, verify_parameters
    dist._register_comm_hook, dist._register_builtin_comm_hook = _add_hook, _add_builtin_hook
