"""For the `Trainer` of Hugging Face: a lease, by which it saves and stops when the scheduler says so and goes on there
later, and a batch size that may change while it trains.

    lease = HuggingFaceLease()
    trainer = Trainer(…, callbacks=[lease, HuggingFaceBatch(batch, sampler)])
    trainer.train(resume_from_checkpoint=lease.checkpoint)

Without a scheduler the lease does nothing, and `checkpoint` is None; without a daemon sizes stay as they are.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from gpuyard.client.batch_sampler import SharedBatchSampler
from gpuyard.client.foreign_loop import AfterStep, join_loop, link_or_copy, wait_for_all
from gpuyard.client.foreign_steps import ForeignSteps
from gpuyard.client.shared_batch import SharedBatch
from gpuyard.client.stepping import LeaseEnded

try:
    from transformers import TrainerCallback
except ImportError:  # whoever has no Trainer has no use for this, but may import it
    TrainerCallback = object  # type: ignore[misc, assignment, unused-ignore]

HINT = "call train(resume_from_checkpoint=lease.checkpoint)"


class HuggingFaceLease(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """A callback of `transformers.Trainer`; a step is one of its optimizer's."""

    def __init__(self) -> None:
        self._loop = join_loop(self._write)
        self._saved = Path()
        self._turn = AfterStep.GO_ON

    @property
    def checkpoint(self) -> str | None:
        """What to give to `train` as `resume_from_checkpoint`."""
        found = self._loop.checkpoint if self._loop is not None else None
        return str(found) if found is not None else None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """The first step follows."""
        if self._loop is not None:
            self._loop.begin(state.global_step, HINT)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Ask what follows, and let the Trainer do it."""
        if self._loop is None:
            return
        self._turn = self._loop.after(state.global_step)
        control.should_save = control.should_save or self._turn is not AfterStep.GO_ON
        control.should_training_stop = control.should_training_stop or self._turn is AfterStep.STOP

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """The Trainer has saved: keep what it wrote as a checkpoint of the job, if that was due."""
        if self._loop is not None and self._turn is not AfterStep.GO_ON:
            wait_for_all()
            self._saved = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            self._loop.save()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Leave, if that is why it ends; the script goes on only where all steps are done."""
        if self._loop is not None and self._turn is AfterStep.STOP:
            self._loop.leave()
            if not self._loop.finished:
                raise LeaseEnded(0)

    def _write(self, path: Path) -> None:
        shutil.copytree(self._saved, path, copy_function=link_or_copy)


class HuggingFaceBatch(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """A callback of `transformers.Trainer` whose `get_train_dataloader` has a loader with the sampler.

    The sampler's `parts` are `gradient_accumulation_steps`. An epoch of the Trainer has as many batches as with the
    task's own size. Where it goes on from a checkpoint it cannot know what sizes there were: it wants
    `ignore_data_skip`.
    """

    def __init__(self, batch: SharedBatch, sampler: SharedBatchSampler) -> None:
        self._steps = ForeignSteps(batch, sampler)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """The first step follows."""
        optimizer = kwargs["optimizer"]
        optimizers = [getattr(optimizer, "optimizer", optimizer)]
        self._steps.begin(optimizers, kwargs["model"].parameters(), args.gradient_accumulation_steps)

    def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Gradients are only collected so far."""
        self._steps.micro_batch()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """The optimizer has done a step."""
        self._steps.micro_batch()
        self._steps.step()

    def _pause(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """What was done just now is no part of a step."""
        self._steps.pause()

    on_epoch_begin = on_evaluate = on_save = _pause
