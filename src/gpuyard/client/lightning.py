"""For the `Trainer` of Lightning: a lease, by which it saves and stops when the scheduler says so and goes on there
later, and a batch size that may change while it trains.

    lease = LightningLease()
    trainer = Trainer(…, callbacks=[lease, LightningBatch(batch, sampler)])
    trainer.fit(model, DataLoader(data, batch_sampler=sampler), ckpt_path=lease.checkpoint)

Without a scheduler the lease does nothing, and `checkpoint` is None; without a daemon sizes stay as they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuyard.client.batch_sampler import SharedBatchSampler
from gpuyard.client.foreign_loop import AfterStep, join_loop
from gpuyard.client.foreign_steps import ForeignSteps
from gpuyard.client.shared_batch import SharedBatch
from gpuyard.client.stepping import LeaseEnded

try:
    from lightning.pytorch import Callback
except ImportError:  # whoever has no Trainer has no use for this, but may import it
    Callback = object  # type: ignore[misc, assignment, unused-ignore]

HINT = "call fit(…, ckpt_path=lease.checkpoint)"
NOWHERE = "unused"
"""All processes take part in saving, and only the first one writes."""


class LightningLease(Callback):  # type: ignore[misc, unused-ignore]
    """A callback of Lightning's `Trainer`; a step is one of `trainer.global_step`."""

    def __init__(self) -> None:
        self._loop = join_loop(self._write)
        self._trainer: Any = None
        self._step = -1

    @property
    def checkpoint(self) -> str | None:
        """What to give to `fit` as `ckpt_path`."""
        found = self._loop.checkpoint if self._loop is not None else None
        return str(found) if found is not None else None

    def on_train_start(self, trainer: Any, *_others: Any) -> None:
        """The first step follows."""
        if self._loop is not None:
            self._trainer, self._step = trainer, trainer.global_step
            self._loop.begin(trainer.global_step, HINT)

    def on_train_batch_end(self, trainer: Any, *_others: Any) -> None:
        """Ask what follows, unless gradients are only collected so far, and do it."""
        if self._loop is None or trainer.global_step == self._step:
            return
        self._step = trainer.global_step
        turn = self._loop.after(self._step)
        if turn is AfterStep.GO_ON:
            return
        if self._loop.saves:
            self._loop.save()
        else:
            trainer.save_checkpoint(NOWHERE)
        if turn is AfterStep.STOP:
            self._loop.leave()
            if not self._loop.finished:
                raise LeaseEnded(0)
            trainer.should_stop = True

    def _write(self, path: Path) -> None:
        self._trainer.save_checkpoint(path)


class LightningBatch(Callback):  # type: ignore[misc, unused-ignore]
    """A callback of Lightning's `Trainer`. The sampler's `parts` are the Trainer's `accumulate_grad_batches`."""

    def __init__(self, batch: SharedBatch, sampler: SharedBatchSampler) -> None:
        self._steps = ForeignSteps(batch, sampler)
        self._step = -1

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """The first step follows."""
        self._step = trainer.global_step
        self._steps.begin(trainer.optimizers, pl_module.parameters(), trainer.accumulate_grad_batches)

    def on_train_batch_end(self, trainer: Any, *_others: Any) -> None:
        """Gradients of one more batch have been added, and the optimizer may have done a step."""
        self._steps.micro_batch()
        if trainer.global_step != self._step:
            self._step = trainer.global_step
            self._steps.step()

    def on_train_epoch_start(self, *_others: Any) -> None:
        """What was done between two epochs is no part of a step..."""
        self._steps.pause()

    def on_validation_end(self, *_others: Any) -> None:
        """...nor is a validation..."""
        self._steps.pause()

    def on_save_checkpoint(self, *_others: Any) -> None:
        """...nor the saving."""
        self._steps.pause()
