"""What slices leave unserved: what their turns cannot do, and what the networks of their GPUs do not let in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from gpuyard.core.service import Service
from gpuyard.policies.partition.interface import Place, Slice, Turn
from gpuyard.policies.partition.latency import LatencyModel
from gpuyard.policies.partition.limits import NETWORK_GBIT, network_gbit
from gpuyard.policies.partition.turn_rates import Rates, turn_rates

ROUNDING = 1e-6
"""Of a rate, and of a network."""


def shortfall(
    slices: Sequence[Slice],
    services: Mapping[int | str, Service],
    latency: Mapping[str, LatencyModel],
    tail: float | None,
) -> Rates:
    """Requests a second of each service that is not served as promised; 0 where only its peaks are not served."""
    of = _Sent(slices, services, latency)
    at_random = turn_rates(slices, services, latency, tail)
    able = of.by_service(at_random)
    short = {name for name, each in services.items() if able[name] < _nearly(each.rate_per_s)}
    while (name := of.most_of_a_full_network(of.loaded(at_random), short)) is not None:
        short.add(name)
    going = of.by_service(of.let_in(short))
    rates = {name: services[name].rate_per_s for name in services if name in short}
    return {name: 0.0 if going[name] >= _nearly(rate) else rate - going[name] for name, rate in rates.items()}


def going_to_turns(
    slices: Sequence[Slice],
    services: Mapping[int | str, Service],
    latency: Mapping[str, LatencyModel],
    short: Set[int | str],
) -> list[float]:
    """Requests a second that go to each turn if they come evenly, in the order of the slices; `latency` is by node.

    All turns of a service are loaded alike. What is promised goes to a GPU first; services that are short share what
    is left of its network.
    """
    return _Sent(slices, services, latency).let_in(short)


@dataclass(frozen=True, eq=False)
class _Sent:
    """What is sent to each turn of a plan, in the order of its slices."""

    slices: Sequence[Slice]
    services: Mapping[int | str, Service]
    latency: Mapping[str, LatencyModel]

    @cached_property
    def turns(self) -> list[tuple[Slice, Turn]]:
        return [(part, turn) for part in self.slices for turn in part.turns]

    @cached_property
    def evenly(self) -> list[float]:
        """If requests come evenly: of what turns can do, alike for all turns of a service."""
        return self.loaded([turn.batch / part.period_s for part, turn in self.turns])

    def loaded(self, able: Sequence[float]) -> list[float]:
        """What services are asked for, in proportion to what their turns can take."""
        total = self.by_service(able)
        return [
            rate * min(1.0, self.services[turn.service].rate_per_s / total[turn.service]) if rate else 0.0
            for (_, turn), rate in zip(self.turns, able, strict=True)
        ]

    def by_service(self, rates: Sequence[float]) -> Rates:
        total: Rates = defaultdict(float)
        for (_, turn), rate in zip(self.turns, rates, strict=True):
            total[turn.service] += rate
        return total

    def let_in(self, short: Set[int | str]) -> list[float]:
        promised = self._networks(self.evenly, self.services.keys() - short)
        others = self._networks(self.evenly, short)
        part_let_in = {
            place: min(1.0, max(NETWORK_GBIT - sum(promised[place].values()), 0.0) / sum(gbit.values()))
            for place, gbit in others.items() if any(gbit.values())
        }  # fmt: skip
        return [
            rate * part_let_in.get((part.node, part.gpu), 1.0) if turn.service in short else rate
            for (part, turn), rate in zip(self.turns, self.evenly, strict=True)
        ]

    def most_of_a_full_network(self, at_random: Sequence[float], short: Set[int | str]) -> int | str | None:
        """Of a GPU whose network does not let in all that is promised, in either proportion: who asks it for most."""
        promised = self.services.keys() - short
        evenly, other = self._networks(self.evenly, promised), self._networks(at_random, promised)
        for place, gbit in evenly.items():
            if min(sum(gbit.values()), sum(other[place].values())) > NETWORK_GBIT * (1 + ROUNDING):
                return max(gbit, key=lambda name: gbit[name])
        return None

    def _networks(self, rates: Sequence[float], names: Set[int | str]) -> dict[Place, Rates]:
        """What these services take of the network of each GPU, in Gbit a second."""
        found: dict[Place, Rates] = defaultdict(lambda: defaultdict(float))
        for (part, turn), rate in zip(self.turns, rates, strict=True):
            if turn.service in names:
                model = self.latency[part.node].gpu.models[self.services[turn.service].model]
                found[part.node, part.gpu][turn.service] += network_gbit(model.input_bytes, rate)
        return found


def _nearly(rate: float) -> float:
    return rate * (1 - ROUNDING)
