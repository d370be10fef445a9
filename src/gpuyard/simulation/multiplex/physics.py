"""What tasks on one GPU really do to each other in the simulated world, whatever a policy believes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from gpuyard.policies.multiplex.batch_grid import BatchRange
from gpuyard.policies.multiplex.effects import usual_effect
from gpuyard.policies.multiplex.from_profiles import batches_of, usage_of
from gpuyard.policies.multiplex.interference import Usage
from gpuyard.policies.multiplex.noise_scale import efficiency
from gpuyard.profiles import ModelProfile, Zoo

BATCH_EXPONENT = 0.5
"""A task disturbs by its relative batch size to this power: an assumption, which nobody has measured."""
FIXED_PART = 0.3
"""Of a step with a task's own batch size, where nobody says it."""


class RunningTask(NamedTuple):
    """A task on a GPU: its model, and its batch size now."""

    model: str
    batch: int


class Physics:
    """The performance of tasks that share a GPU, by the profiles of their models."""

    def __init__(
        self, zoo: Zoo, models: Sequence[str], smallest_gpu_gb: float,
        stated: Mapping[str, Usage] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """`stated` says for some models how they use a GPU, and as which model that is known."""
        self._zoo, self._smallest_gpu_gb = zoo, smallest_gpu_gb
        self._profiles: dict[str, ModelProfile] = {}
        self.usages: dict[str, Usage] = {}
        self.batches: dict[str, BatchRange] = {}
        for name in models:
            self.know(name)
        self.usages.update(stated)
        self.slowdown = cache(self._slowdown)
        self.worth = cache(self._worth)

    def know(self, model: str) -> None:
        """Tasks of this model may come."""
        profile = self._profiles[model] = self._zoo.profile(model)
        self.usages[model], self.batches[model] = usage_of(profile), batches_of(profile, self._smallest_gpu_gb)

    def _slowdown(self, model: str, others: tuple[RunningTask, ...], gpu_type: str) -> float:
        """How much longer a task's steps take beside these others: one upon the other, as for slices of a GPU."""
        factor = 1.0
        for other in others:
            relative = other.batch / self.batches[other.model].own
            factor *= 1.0 + self._beside(model, other.model, gpu_type) * relative**BATCH_EXPONENT
        return factor

    def _beside(self, model: str, other: str, gpu_type: str) -> float:
        """By which part a task is slower beside one with its own batch size."""
        measured = self._profiles[model].measured_beside(self._profiles[other], gpu_type)
        use = self.usages[other]
        return usual_effect(use[:3]) if measured is None else measured - 1.0

    def step_factor(self, model: str, batch: int) -> float:
        """How long a step takes alone, in steps with the task's own batch size."""
        sharing = self._profiles[model].sharing
        fixed = FIXED_PART if sharing is None else sharing.fixed_part
        return fixed + (1.0 - fixed) * batch / self.batches[model].own

    def _worth(self, model: str, batch: int) -> float:
        """How much a task gets done in a second alone with this batch size, its own being 1: samples, by their use."""
        own = self.batches[model].own
        return batch / own / self.step_factor(model, batch) * efficiency(self.noise_scale(model), batch, own)

    def noise_scale(self, model: str) -> float | None:
        """The noise scale of a model's gradients, if anybody knows it."""
        sharing = self._profiles[model].sharing
        return None if sharing is None else sharing.noise_scale

    def profile(self, model: str) -> ModelProfile:
        """The profile of a model."""
        return self._profiles[model]
