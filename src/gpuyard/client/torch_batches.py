"""What a PyTorch script does with a batch size that changes: the learning rate follows, and steps must fit."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from gpuyard.client.sample_pieces import piece_of, sample_count
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
    changed: list[tuple[dict[str, Any], Any, Any]] = []

    def restore(*_anything: Any) -> None:
        for group, rate, scaled in changed:
            if group["lr"] is scaled:  # or somebody has set it since a step that failed
                group["lr"] = rate
        changed.clear()

    def scale(optimizer: torch.optim.Optimizer, *_others: Any) -> None:
        restore()  # what a step left that failed
        factor = _FOLLOWED[optimizer].learning_rate_factor
        if factor != 1.0:
            for group in optimizer.param_groups:
                changed.append((group, group["lr"], group["lr"] * factor))
                group["lr"] = changed[-1][2]

    optimizer.register_step_pre_hook(scale)
    optimizer.register_step_post_hook(restore)
    optimizer.register_state_dict_pre_hook(restore)


def train_as_fits(batch: SharedBatch, train: Callable[..., object], *samples: Any) -> None:
    """Call `train` with some samples; where the GPU's memory is too small for them, in pieces of a size that did fit.

    `train` does one whole step, which begins with `zero_grad`. It fails as it would have where no smaller size did fit.
    Where memory ends only after an optimizer's step, that has been done: these samples are not trained again, and what
    follows in `train` is left out this once. Samples may be tensors, or dicts, lists and tuples of them.
    """
    count = sample_count(samples)
    stepped: list[object] = []
    handle = register_optimizer_step_post_hook(lambda optimizer, *_others: stepped.append(optimizer))
    try:
        train(*samples)
    except torch.OutOfMemoryError:
        if count is None or not batch.out_of_memory(count):
            raise
    else:
        return
    finally:
        handle.remove()
    gc.collect()  # outside of `except`, whose traceback holds on to what the step had
    torch.cuda.empty_cache()
    if stepped:
        return
    for start in range(0, count, batch.size):
        train_as_fits(batch, train, *piece_of(samples, slice(start, start + batch.size), count))
