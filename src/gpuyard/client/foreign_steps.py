"""What a training loop that is not ours tells of its micro-batches and steps, where its batch size may change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuyard.client.batch_sampler import SharedBatchSampler
from gpuyard.client.shared_batch import SharedBatch


class ForeignSteps:
    """Counts the samples of each step, and measures the noise scale where steps have several micro-batches."""

    def __init__(self, batch: SharedBatch, sampler: SharedBatchSampler) -> None:
        self._batch, self._sampler = batch, sampler
        self._noise: Any = None
        self._samples = 0

    def begin(self, optimizers: Iterable[Any], parameters: Iterable[Any], accumulation: int) -> None:
        """Training begins, perhaps once more; an optimizer's step is done after so many batches of the loader."""
        from gpuyard.client.gradient_noise import GradientNoise
        from gpuyard.client.torch_batches import scale_learning_rate

        if accumulation != self._sampler.parts:
            raise ValueError(
                f"the sampler deals each batch in {self._sampler.parts} parts, and the trainer does a step after "
                f"{accumulation}: make it SharedBatchSampler(…, parts={accumulation})"
            )
        for each in optimizers:
            scale_learning_rate(each, self._batch)
        if self._noise is not None:
            self._noise.close()  # of a training before, which may have ended in the middle of a step
        self._samples = 0
        self._batch.pause()
        if self._sampler.parts > 1:
            self._noise = GradientNoise(parameters, self._batch)

    def micro_batch(self) -> None:
        """Gradients of one more batch of the loader have been added."""
        samples = self._sampler.done()
        self._samples += samples
        if self._noise is not None:
            self._noise.micro_batch(samples)

    def step(self) -> None:
        """The optimizer has done a step."""
        if self._noise is not None:
            self._noise.step()
        self._batch.step(None if self._noise is None else self._noise.value, samples=self._samples)
        self._samples = 0

    def pause(self) -> None:
        """Something else than a step follows."""
        self._batch.pause()
