"""Larger batches where a plan has time for them: room for requests that come all at once, and for more of them.

A slice does not wait until a batch is full, so that a larger one costs nothing until it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuyard.policies.partition.check import violations
from gpuyard.policies.partition.cutting import cut, held_by
from gpuyard.policies.partition.interface import PartitionPlan, Slice
from gpuyard.policies.partition.problem import Problem
from gpuyard.policies.partition.turn_rates import Rates
from gpuyard.profiles.inference.model import BATCHES

ENOUGH = 2.0
"""Times its rate that a service need not be able to take more than."""
ROUNDING = 1e-9


def raised(plan: PartitionPlan, problem: Problem) -> PartitionPlan:
    """The same slices with larger batches; as it was where that would not hold any more."""
    found = _Raising(problem).raised(plan)
    broken = violations(found, problem.services, problem.cluster, problem.latency)
    return plan if broken else found


@dataclass(frozen=True, eq=False)
class _Raising:
    """What larger batches have to leave as it is: every SLO, and whoever is served worst."""

    problem: Problem

    def raised(self, plan: PartitionPlan) -> PartitionPlan:
        """On every GPU that does all it can; one that waits for its network would have no use of it."""
        slices, able = list(plan.slices), self.problem.rates(plan.slices, among_others=True)
        gpus: dict[tuple[str, int], list[int]] = {}
        for number, part in enumerate(slices):
            gpus.setdefault((part.node, part.gpu), []).append(number)
        for numbers in gpus.values():
            parts = [slices[number] for number in numbers]
            if all(_is_back_to_back(part) for part in parts):
                for number, part in zip(numbers, self._raise(parts, able), strict=True):
                    slices[number] = part
        return self.problem.told(slices)

    def _raise(self, parts: list[Slice], able: Rates) -> list[Slice]:
        """One GPU; `able` is what all GPUs together can take of each service, and is kept up to date."""
        full: set[tuple[int, int]] = set()
        here = self.problem.rates(parts, among_others=True)
        while True:
            rooms = self._rooms(here, able)
            short = [
                (rooms[turn.service], (s, t)) for s, part in enumerate(parts) for t, turn in enumerate(part.turns)
                if turn.batch < BATCHES and (s, t) not in full and rooms[turn.service] < ENOUGH
            ]  # fmt: skip
            if not short:
                return parts
            least, place = min(short)
            tried = self._larger(parts, *place)
            after = self.problem.rates(tried, among_others=True)
            then = {name: able[name] + rate - here[name] for name, rate in after.items()}
            rooms_then = self._rooms(after, then)
            helped = rooms_then[parts[place[0]].turns[place[1]].service] > least * (1 + ROUNDING)
            if helped and min(rooms_then.values()) >= min(rooms.values()) and self._in_time(tried):
                parts, here = tried, after
                able.update(then)
            else:
                full.add(place)

    def _rooms(self, names: Iterable[int | str], able: Mapping[int | str, float]) -> Rates:
        """How many times its rate each of these services can take."""
        return {name: able[name] / self.problem.by_id[name].rate_per_s for name in names}

    def _larger(self, parts: list[Slice], number: int, place: int) -> list[Slice]:
        """One more request in a batch, and what all turns of the GPU then take."""
        layout = list(held_by(parts))
        percent, held = layout[number]
        name, batch = held[place]
        layout[number] = (percent, (*held[:place], (name, batch + 1), *held[place + 1 :]))
        node, gpu = parts[number].node, parts[number].gpu
        return list(cut((node, gpu), tuple(layout), self.problem.by_id, self.problem.latency_of_node[node]))

    def _in_time(self, parts: list[Slice]) -> bool:
        slos = ((part, self.problem.by_id[turn.service].slo_ms) for part in parts for turn in part.turns)
        return all(part.answer_s * 1000.0 <= slo_ms * (1 + ROUNDING) for part, slo_ms in slos)


def _is_back_to_back(part: Slice) -> bool:
    return part.period_s <= sum(turn.takes_s for turn in part.turns) * (1 + ROUNDING)
