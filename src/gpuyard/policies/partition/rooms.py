"""What a deployment's services can take beside what they are asked for, and how much of it would not be in time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import inf

from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.interface import Slice, Turn
from gpuyard.policies.partition.latency import by_node
from gpuyard.policies.partition.limits import NETWORK_GBIT, network_gbit
from gpuyard.policies.partition.shortfall import going_to_turns
from gpuyard.policies.partition.tail import PLACES
from gpuyard.policies.partition.turn_rates import Rates, turn_rates
from gpuyard.policies.partition.waiting import even_lengths, missed_part


@dataclass(frozen=True)
class TurnRoom:
    """One turn: requests a second."""

    part: Slice
    turn: Turn
    gpu: int
    """Counted through all nodes."""
    able: float
    """That it can take, at random if that is what the plan says of its service, else if they come evenly."""
    rate: float
    """That go to it: all turns of a service are loaded alike, and none with more than it can take or is let in."""

    @property
    def spare(self) -> float:
        """That are left of what it can take."""
        return self.able - self.rate


@dataclass(frozen=True, eq=False)
class Rooms:
    """All turns of a deployment."""

    of: Deployment

    @cached_property
    def turns(self) -> tuple[TurnRoom, ...]:
        """In the order of the slices."""
        of, slices = self.of, self.of.plan.slices
        latency = by_node(of.latency, of.cluster)
        at_random, evenly = (turn_rates(slices, of.service, latency, tail) for tail in (of.plan.tail, None))
        places = [(part, turn) for part in slices for turn in part.turns]
        able = [
            most if turn.service in of.plan.unserved else rate
            for (_, turn), rate, most in zip(places, at_random, evenly, strict=True)
        ]
        total: Rates = defaultdict(float)
        for (_, turn), rate in zip(places, able, strict=True):
            total[turn.service] += rate
        loads = {name: min(of.service[name].rate_per_s / rate, 1.0) for name, rate in total.items() if rate}
        gpus = {id(part): of.gpu_number(part) for part in slices}
        going = going_to_turns(slices, of.service, latency, of.plan.unserved.keys())
        return tuple(
            TurnRoom(part, turn, gpus[id(part)], rate, let_in)
            if turn.service in of.plan.unserved
            else TurnRoom(part, turn, gpus[id(part)], rate, rate * loads.get(turn.service, 0.0))
            for (part, turn), rate, let_in in zip(places, able, going, strict=True)
        )

    def turns_of(self, number: int) -> tuple[TurnRoom, ...]:
        """Those of one slice."""
        first, last = self._first[number : number + 2]
        return self.turns[first:last]

    @cached_property
    def _first(self) -> list[int]:
        return [0, *accumulate(len(part.turns) for part in self.of.plan.slices)]

    @cached_property
    def _turns_of_service(self) -> dict[int | str, list[TurnRoom]]:
        found: dict[int | str, list[TurnRoom]] = {each.service_id: [] for each in self.of.services}
        for each in self.turns:
            found[each.turn.service].append(each)
        return found

    def able(self, service: int | str) -> float:
        """What all turns of a service can take."""
        return sum(each.able for each in self._turns_of_service[service])

    def headroom(self, service: int | str) -> float:
        """What a service can take beside its rate, if nobody else takes more; less than nothing: what is missing."""
        able, rate = self.able(service), self.of.service[service].rate_per_s
        missing = max(rate - able, self.of.plan.unserved.get(service, 0.0))
        if missing > 0:
            return -missing
        spare: dict[int, float] = defaultdict(float)
        for each in self._turns_of_service[service]:
            let_in = self._let_in(each)
            spare[each.gpu] = min(spare[each.gpu] + each.spare, let_in)
        return sum(spare.values())

    def turn_headroom(self, room: TurnRoom) -> float:
        """What one turn can take beside what goes to it, as far as the network of its GPU lets it in."""
        return min(room.spare, self._let_in(room))

    def _let_in(self, room: TurnRoom) -> float:
        """Requests a second of a turn's service that the network of its GPU would still take."""
        one = self._gbit(room)
        return max(NETWORK_GBIT - self._network[room.gpu], 0.0) / one if one else inf

    @cached_property
    def _network(self) -> dict[int, float]:
        """What comes in on each GPU, in Gbit a second."""
        total: dict[int, float] = defaultdict(float)
        for each in self.turns:
            total[each.gpu] += each.rate * self._gbit(each)
        return total

    def _gbit(self, room: TurnRoom) -> float:
        models = self.of.known[self.of.gpu_type(room.part)].models
        return network_gbit(models[self.of.service[room.turn.service].model].input_bytes, 1.0)

    @cached_property
    def _evenly(self) -> Rates:
        return self.of.plan.capacity()

    def missed(self, service: int | str) -> float | None:
        """The part of requests at random that is expected not to be in time, at the most; None where none is served.

        Where a service has several slices, each is counted as if it had to answer what is dealt to it, so that less is
        missed in truth.
        """
        able = self.able(service)
        load = self.of.service[service].rate_per_s / able if able else 0.0
        mine = self._turns_of_service[service]
        return sum(each.able * self._missed(each, load * each.able) for each in mine) / able if able else None

    def _missed(self, room: TurnRoom, rate: float) -> float:
        part, turn, service = room.part, room.turn, self.of.service[room.turn.service]
        latency = self.of.latency[self.of.gpu_type(part)]
        round_s = sum(each.takes_s for each in part.turns)
        places = max(min(int(self._evenly[turn.service] * round_s), PLACES[-1]), turn.batch)
        alone = len(part.turns) == 1
        shrinks = latency.shrinks(service.model, turn.batch, part.thousandths // 10) * turn.takes_s / round_s
        window = (service.slo_ms / 1000.0 - turn.takes_s) / round_s
        load = rate * round_s / turn.batch * places
        lengths = even_lengths(places, shrinks, alone=alone)
        return missed_part(load, places, window, lengths, alone=alone, bunch=service.at_once)
