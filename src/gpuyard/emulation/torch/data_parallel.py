"""`torch.nn.DataParallel` on emulated GPUs: what torch does in C++ and in threads, as copies between timelines.

The replicas are called one after the other: the host only queues their work, and each GPU has its own time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.cuda.comm
from torch.nn.parallel import comm, data_parallel

from gpuyard.emulation.torch import moves


def scatter(
    tensor: Any, devices: Any = None, chunk_sizes: Any = None, dim: int = 0, streams: Any = None, *, out: Any = None
) -> tuple[Any, ...]:
    """Cut a tensor into pieces, one for each GPU."""
    chunks = tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    return tuple(moves.cuda(chunk, device) for chunk, device in zip(chunks, devices, strict=False))


def gather(tensors: Sequence[Any], dim: int = 0, destination: Any = None, *, out: Any = None) -> Any:
    """Put pieces together on one GPU, or on the host for -1."""
    place = "cpu" if destination == -1 else torch.device("cuda", moves.index_of(destination) or 0)
    return torch.cat([tensor.to(place) for tensor in tensors], dim)


def broadcast(tensor: Any, devices: Sequence[Any] | None = None, *, out: Any = None) -> tuple[Any, ...]:
    """Copy a tensor to every GPU but the one that has it."""
    return tuple(moves.cuda(tensor, device) for device in devices or ())


def reduce_add(inputs: Sequence[Any], destination: Any = None) -> Any:
    """Add up tensors on one GPU."""
    return _sum([moves.cuda(tensor, destination) for tensor in inputs])


def broadcast_coalesced(tensors: Sequence[Any], devices: Sequence[Any], buffer_size: int = 0) -> list[Any]:
    """Copy tensors to every GPU but the one that has them."""
    return [[moves.cuda(tensor, device) for tensor in tensors] for device in devices]


def reduce_add_coalesced(inputs: Sequence[Any], destination: Any = None, buffer_size: int = 0) -> tuple[Any, ...]:
    """Add up the tensors of all GPUs on one of them."""
    return tuple(reduce_add(tensors, destination) for tensors in zip(*inputs, strict=True))


def _sum(tensors: Sequence[Any]) -> Any:
    total = tensors[0]
    for tensor in tensors[1:]:
        total = total + tensor
    return total


def parallel_apply(modules: Any, inputs: Any, kwargs_tup: Any = None, devices: Any = None) -> list[Any]:
    """Call each replica with its part of the input."""
    named = kwargs_tup or [{}] * len(modules)
    places = devices or [None] * len(modules)
    outputs = []
    for module, args, kwargs, place in zip(modules, inputs, named, places, strict=True):
        with torch.cuda.device(place):
            outputs.append(module(*(args if isinstance(args, (list, tuple)) else (args,)), **kwargs))
    return outputs


def install() -> None:
    """Replace the parts of torch that need a CUDA driver."""
    for function in (scatter, gather, broadcast, broadcast_coalesced, reduce_add, reduce_add_coalesced):
        for module in (comm, torch.cuda.comm):
            setattr(module, function.__name__, function)
    data_parallel.parallel_apply = torch.nn.parallel.parallel_apply = parallel_apply
