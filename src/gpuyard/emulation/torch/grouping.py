"""Lets optimizers and gradient clipping treat the tensors of each GPU by themselves.

They group tensors by device inside torch, where all emulated GPUs are one.
"""

from __future__ import annotations

from typing import Any, cast

import torch

from gpuyard.emulation.torch.tensor import EmulatedTensor

_group = torch._C._group_tensors_by_device_and_dtype


def group(lists: list[list[Any]], with_indices: bool = False) -> dict[tuple[torch.device, torch.dtype], Any]:
    """Group tensors, given as lists that run in parallel, by GPU and type."""
    groups: dict[tuple[torch.device, torch.dtype], Any] = {}
    for (device, dtype), (members, indices) in _group(lists, with_indices).items():
        if type(members[0][0]) is not EmulatedTensor:
            groups[device, dtype] = members, indices
            continue
        places: dict[torch.device, list[int]] = {}
        for position, tensor in enumerate(cast("list[torch.Tensor]", members[0])):
            places.setdefault(tensor.device, []).append(position)
        for place, positions in places.items():
            groups[place, dtype] = (
                [[each[position] for position in positions] if each else each for each in members],
                [indices[position] for position in positions] if indices else indices,
            )
    return groups


def install() -> None:
    """Replace torch's way of grouping."""
    torch._C._group_tensors_by_device_and_dtype = group
