"""The noise scale of PyTorch gradients, measured while those of micro-batches are added up in ordinary steps.

    noise = GradientNoise(model.parameters(), batch)
    for images, labels in micro_batches:
        (loss(model(images), labels) / parts).backward()
        noise.micro_batch(len(images))
    noise.step()
    optimizer.step()
    batch.step(noise.value)

One step in ten is measured, while somebody asks; otherwise there are no hooks. Lengths are taken where gradients are
added to `grad`: before anybody clips or unscales them, or averages them over processes. It takes two micro-batches or
more, of equal sizes, with one `backward` each; a factor on the losses of a step makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from gpuyard.client.noise_scale import NoiseScale
from gpuyard.client.shared_batch import SharedBatch

EVERY = 10
"""One of so many steps is measured."""


class GradientNoise:
    """Looks at the gradients of some parameters while somebody asks for their noise scale."""

    def __init__(self, parameters: Iterable[Any], batch: SharedBatch, every: int = EVERY) -> None:
        self._parameters = [each for each in parameters if each.requires_grad]
        self._batch, self._every = batch, every
        self._scale, self._steps = NoiseScale(), 0
        self._hooks: list[Any] = []
        self._sizes: list[int] = []
        self._parts: dict[int, list[torch.Tensor]] = {}
        """By parameter, the squared lengths of what each micro-batch added, on the GPU: nobody waits for them."""
        self._sums: dict[int, torch.Tensor] = {}
        """By parameter, the squared length of all that was added so far."""

    @property
    def value(self) -> float | None:
        """The noise scale in samples; None while it is not known."""
        return self._scale.value

    def micro_batch(self, samples: int) -> None:
        """The gradients of so many samples have been added."""
        if self._hooks:
            self._sizes.append(samples)

    def step(self) -> None:
        """All micro-batches of a step have been added."""
        if self._hooks:
            self._take_in()
            self._look_away()
        if self._batch.asked:
            if self._steps % self._every == 0:
                self._look()
            self._steps += 1

    def close(self) -> None:
        """Look at no gradients any more."""
        self._look_away()

    def _look(self) -> None:
        """Note lengths during the next step."""
        for number, parameter in enumerate(self._parameters):
            self._hooks += self._look_at(number, parameter)

    def _look_at(self, number: int, parameter: Any) -> list[Any]:
        def part(gradient: torch.Tensor) -> None:
            self._parts.setdefault(number, []).append(_square(gradient))

        def added(parameter: torch.Tensor) -> None:
            assert parameter.grad is not None
            self._sums[number] = _square(parameter.grad)

        return [parameter.register_hook(part), parameter.register_post_accumulate_grad_hook(added)]

    def _look_away(self) -> None:
        for hook in self._hooks:
            hook.remove()
        for each in (self._hooks, self._sizes, self._parts, self._sums):
            each.clear()

    def _take_in(self) -> None:
        """Learn from a step: of n parts whose gradients add up to the step's, each is an n-th of a part's own."""
        count = len(self._sizes)
        one_each = all(len(squares) <= count for squares in self._parts.values())
        if count < 2 or len(set(self._sizes)) > 1 or not self._sums or not one_each:
            return
        self._scale = self._scale.updated(
            micro_batch=self._sizes[0],
            parts=count,
            mean_square=count * _total([each for squares in self._parts.values() for each in squares]),
            square_of_mean=_total(list(self._sums.values())),
        )


def _square(gradient: torch.Tensor) -> torch.Tensor:
    """The squared length of a gradient, in a precision that is good for sums."""
    values = gradient.detach()
    if values.is_sparse:
        values = values.coalesce().values()
    length: torch.Tensor = torch.linalg.vector_norm(values, dtype=torch.promote_types(values.dtype, torch.float32))
    return length.square()


def _total(squares: list[torch.Tensor]) -> float:
    """Their sum, wherever they are."""
    return float(torch.stack([each.to(squares[0].device) for each in squares]).sum())
