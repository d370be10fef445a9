"""A plan in one go, for any number of services: GPU after GPU gets what is worth most of what is left to serve.

The second slice of a GPU is filled after the first, knowing its pressure. Whether a way holds is worked out as for any
other; here it is only made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.policies.partition.candidates import Beside, Slot
from gpuyard.policies.partition.contents import NumberedTurns
from gpuyard.policies.partition.limits import CONTEXT_MB, NETWORK_GBIT
from gpuyard.policies.partition.problem import Problem, Used
from gpuyard.policies.partition.slots import Slots
from gpuyard.policies.partition.ways import NOTHING, GpuWays, Ways, best_first, layouts
from gpuyard.profiles.inference.model import WHOLE_GPU

ROUNDING = 1e-6
EMPTY: NumberedTurns = ()


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

    def _pairs(self, kind: int) -> list[tuple[tuple[int, NumberedTurns], tuple[int, NumberedTurns]]]:
        slots, table = self._slots[kind], self.problem.tables[kind]
        pairs = layouts(list(table.turns))
        limits = Beside(0.0, np.inf, table.gpu_mb - CONTEXT_MB, NETWORK_GBIT)
        whole = Slot(WHOLE_GPU, self.left, limits._replace(memory_mb=table.gpu_mb))
        cut = [Slot(high, self.left, limits._replace(pressure=table.usual_beside(low))) for high, low in pairs]
        alone, *firsts = slots.fill([whole, *cut], self.prices)
        found = [((WHOLE_GPU, alone), (0, EMPTY))] if alone else []
        begun = [(pair, first) for pair, first in zip(pairs, firsts, strict=True) if first]
        if not begun:
            return found
        rests = slots.leaves([high for (high, _), _ in begun], [first for _, first in begun], limits)
        others = [
            Slot(low, self._less(rates), beside) for ((_, low), _), (beside, rates) in zip(begun, rests, strict=True)
        ]
        seconds = slots.fill(others, self.prices)
        return found + [
            ((high, first), (low, second)) for ((high, low), first), second in zip(begun, seconds, strict=True)
        ]

    def _less(self, rates: Floats) -> Floats:
        """What is left if so much is served."""
        left = np.maximum(self.left - rates, 0.0)
        left[left <= ROUNDING * self.problem.wanted] = 0.0
        return left

    @cached_property
    def _slots(self) -> list[Slots]:
        of = self.problem
        return [Slots(table, of.half_slo_ms, of.most_models, of.loads, of.coming) for table in of.tables]

    def _use(self, kind: GpuWays, ways: Ways) -> None:
        """As often as all of it is needed, and once at least."""
        rates = ways.rates[0]
        helped = (rates > 0) & (self.left > 0)
        times = int(np.clip((self.left[helped] / rates[helped]).min(), 1, self.free[kind.number]))
        self.left = self._less(times * rates)
        self.free[kind.number] -= times
        slices = kind.slices(int(ways.first[0]), int(ways.second[0]))
        self.used += [Used(kind.number, slices, float(ways.stretch[0]))] * times
