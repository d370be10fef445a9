"""A plan in one go, for any number of services: GPU after GPU gets what is worth most of what is left to serve.

The second slice of a GPU is filled after the first, knowing its pressure. Whether a way holds is worked out as for any
other; here it is only made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.policies.partition.contents import Held
from gpuyard.policies.partition.limits import CONTEXT_MB, NETWORK_GBIT
from gpuyard.policies.partition.problem import NEIGHBOUR, Problem, Used
from gpuyard.policies.partition.slots import Beside, Slots
from gpuyard.policies.partition.ways import NOTHING, GpuWays, Ways, best_first, layouts
from gpuyard.profiles.inference.model import WHOLE_GPU

ROUNDING = 1e-6
EMPTY: Held = ()


@dataclass(eq=False)
class Filling:
    """What is left to serve, which GPUs are free, and those in use so far."""

    problem: Problem
    left: Floats
    free: Ints
    """GPUs of each kind."""
    prices: Floats
    used: list[Used] = field(default_factory=list)

    def run(self) -> None:
        """Use GPUs until all is served or none is left."""
        while self.free.any() and not self.served:
            found = [best for best in map(self._best, np.flatnonzero(self.free).tolist()) if best is not None]
            if not found:
                return
            worth = np.array([each[0] for each in found])
            self._use(*found[int(best_first(worth)[0])][1:])

    @property
    def served(self) -> bool:
        """Whether nothing is left to serve."""
        return not self.left.any()

    def _best(self, kind: int) -> tuple[float, GpuWays, Ways] | None:
        """The way that is worth most on this kind of GPU, and how much; None if nothing can be served on it."""
        pairs = self._pairs(kind)
        if not pairs:
            return None
        filled = self.problem.kind_with(kind, [each for pair in pairs for each in pair if each[1]])
        first = np.cumsum([0, *(sum(bool(held) for _, held in pair) for pair in pairs)])[:-1]
        second = np.where([bool(pair[1][1]) for pair in pairs], first + 1, NOTHING)
        ways = filled.ways(first, second)
        worth = np.minimum(ways.rates, self.left) @ self.prices
        best = best_first(worth)[:1]
        return (float(worth[best[0]]), filled, ways.take(best)) if worth.any() else None

    def _pairs(self, kind: int) -> list[tuple[tuple[int, Held], tuple[int, Held]]]:
        slots = self._slots[kind]
        gpu_mb = self.problem.tables[kind].gpu_mb
        alone = slots[WHOLE_GPU].fill(self.left, self.prices, Beside(0.0, np.inf, gpu_mb, NETWORK_GBIT))
        found = [((WHOLE_GPU, alone), (0, EMPTY))] if alone else []
        for high, low in layouts(list(slots)):
            usual = min(NEIGHBOUR, float(slots[low].turns.pressure.max()))
            limits = Beside(usual, np.inf, gpu_mb - CONTEXT_MB, NETWORK_GBIT)
            first = slots[high].fill(self.left, self.prices, limits)
            if first:
                beside, rates = slots[high].leaves(first, limits)
                left = np.maximum(self.left - rates, 0.0)
                left[left <= ROUNDING * self.problem.wanted] = 0.0
                found.append(((high, first), (low, slots[low].fill(left, self.prices, beside))))
        return found

    @cached_property
    def _slots(self) -> list[dict[int, Slots]]:
        of = self.problem
        return [
            {
                percent: Slots(table, turns, of.half_slo_ms, of.most_models, of.loads, of.evenly)
                for percent, turns in table.turns.items()
            }
            for table in of.tables
        ]

    def _use(self, kind: GpuWays, ways: Ways) -> None:
        """As often as all of it is needed, and once at least."""
        rates = ways.rates[0]
        helped = (rates > 0) & (self.left > 0)
        times = int(np.clip((self.left[helped] / rates[helped]).min(), 1, self.free[kind.number]))
        self.left = np.maximum(self.left - times * rates, 0.0)
        self.left[self.left <= ROUNDING * self.problem.wanted] = 0.0
        self.free[kind.number] -= times
        slices = kind.slices(int(ways.first[0]), int(ways.second[0]))
        self.used += [Used(kind.number, slices, float(ways.stretch[0]))] * times
