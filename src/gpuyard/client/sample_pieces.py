"""Pieces of what a loader yields: tensors whose first dimension is the sample, in dicts, lists and tuples."""

from __future__ import annotations

from collections.abc import MutableMapping
from copy import copy
from typing import Any

import torch


def sample_count(samples: Any) -> int | None:
    """How many samples the first tensor has that has any dimension; None where there is none."""
    if isinstance(samples, torch.Tensor):
        return len(samples) if samples.dim() else None
    counts = (sample_count(each) for each in _inner(samples))
    return next((count for count in counts if count is not None), None)


def piece_of(samples: Any, where: slice, count: int) -> Any:
    """Some of so many samples. What is no tensor is cut where it has one element for each of them, such as texts."""
    if isinstance(samples, torch.Tensor):
        return samples[where] if samples.dim() and len(samples) == count else samples
    if isinstance(samples, MutableMapping):
        piece = copy(samples)  # of its own type, which may have more to it
        piece.update({name: piece_of(each, where, count) for name, each in samples.items()})
        return piece
    if not isinstance(samples, (list, tuple)):
        return samples
    if sample_count(samples) is None and len(samples) == count:
        return samples[where]
    pieces = [piece_of(each, where, count) for each in samples]
    return type(samples)(*pieces) if hasattr(samples, "_fields") else type(samples)(pieces)


def _inner(samples: Any) -> Any:
    """What a container has in it."""
    if isinstance(samples, MutableMapping):
        return samples.values()
    return samples if isinstance(samples, (list, tuple)) else ()
