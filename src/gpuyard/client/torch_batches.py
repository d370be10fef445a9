"""What a PyTorch script does with a batch size that changes: the learning rate follows, and steps must fit."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch

from gpuyard.client.shared_batch import SharedBatch

_FOLLOWED: WeakKeyDictionary[torch.optim.Optimizer, SharedBatch] = WeakKeyDictionary()
"""By optimizer, the batch size that its learning rate follows."""


def scale_learning_rate(optimizer: torch.optim.Optimizer, batch: SharedBatch) -> None:
    """From now on each step of an optimizer is done with its learning rate times the factor of the batch size.

    What schedulers see and set stays without the factor: no schedule is changed, and none is used up. Said again, as by
    a Trainer that trains twice, it has no second factor.
    """
    known = optimizer in _FOLLOWED
    _FOLLOWED[optimizer] = batch
    if known:
        return
    rates: list[Any] = []

    def restore(optimizer: torch.optim.Optimizer, *_others: Any) -> None:
        for group, rate in zip(optimizer.param_groups, rates, strict=False):
            group["lr"] = rate
        rates.clear()

    def scale(optimizer: torch.optim.Optimizer, *_others: Any) -> None:
        restore(optimizer)  # what a step left that failed
        factor = _FOLLOWED[optimizer].learning_rate_factor
        if factor != 1.0:
            rates.extend(group["lr"] for group in optimizer.param_groups)
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * factor

    optimizer.register_step_pre_hook(scale)
    optimizer.register_step_post_hook(restore)


def train_as_fits(batch: SharedBatch, train: Callable[..., object], *samples: Any) -> None:
    """Call `train` with some samples; where the GPU's memory is too small for them, in pieces of a size that did fit.

    `train` does one whole step, which begins with `zero_grad`. It fails as it would have where no smaller size did fit.
    """
    count = len(samples[0])
    try:
        train(*samples)
    except torch.OutOfMemoryError:
        if not batch.out_of_memory(count):
            raise
    else:
        return
    gc.collect()  # outside of `except`, whose traceback holds on to what the step had
    torch.cuda.empty_cache()
    for piece in zip(*(each.split(batch.size) for each in samples), strict=True):
        train_as_fits(batch, train, *piece)
