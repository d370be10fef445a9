"""Whether a plan holds what it promises: every slice, model and SLO worked out again, apart from whoever made it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from gpuyard.core.cluster import Cluster
from gpuyard.core.grants import WHOLE
from gpuyard.core.service import Service
from gpuyard.policies.partition.check_tail import MOST_PLACES, RandomTurn, useful_part
from gpuyard.policies.partition.interface import PartitionPlan, Slice, Turn
from gpuyard.policies.partition.latency import LatencyModel, Running, usable_types
from gpuyard.policies.partition.limits import CONTEXT_MB, NETWORK_GBIT, USABLE_MEMORY, network_gbit

ROUNDING = 1e-6


@dataclass(frozen=True)
class Violation:
    """One promise that a plan does not keep."""

    where: str
    rule: str
    found: float
    limit: float

    def __str__(self) -> str:
        return f"{self.where}: {self.rule}: {self.found:.4g} against {self.limit:.4g}"


@dataclass(frozen=True, eq=False)
class _Gpu:
    name: str
    gpu_type: str
    slices: tuple[Slice, ...]
    latency: LatencyModel
    services: Mapping[int | str, Service]

    def model(self, service: int | str) -> str:
        return self.services[service].model

    def running(self, part: Slice) -> list[Running]:
        return [Running(self.model(turn.service), turn.batch, part.thousandths // 10) for turn in part.turns]

    def busy_ms(self, part: Slice) -> float:
        """The turns of one period, beside all that runs on the other slices."""
        others = [each for other in self.slices if other is not part for each in self.running(other)]
        return sum(self.latency.beside_ms(*each, others) for each in self.running(part))

    def period_ms(self, part: Slice) -> float:
        """The period in truth: turns that take longer than it make it as long as they are."""
        return max(part.period_s * 1000.0, self.busy_ms(part))

    def at_random(self, part: Slice, turn: Turn) -> RandomTurn:
        """A turn as requests at random see it: it comes round as soon as it can."""
        others = [each for other in self.slices if other is not part for each in self.running(other)]
        percent, model = part.thousandths // 10, self.model(turn.service)
        sizes = [self.latency.beside_ms(model, size, percent, others) for size in range(1, turn.batch + 1)]
        rest = self.busy_ms(part) - sizes[-1] if len(part.turns) > 1 else 0.0
        return RandomTurn(tuple(sizes), rest, self.services[turn.service].slo_ms)


class _Share(NamedTuple):
    """A turn of a service, and what it can do in a second if requests come evenly."""

    gpu: _Gpu
    part: Slice
    turn: Turn
    rate: float


def violations(
    plan: PartitionPlan, services: Sequence[Service], cluster: Cluster, latency: Mapping[str, LatencyModel]
) -> list[Violation]:
    """All promises that a plan breaks; `latency` tells by GPU type what batches take, the buffer included."""
    by_id = {service.service_id: service for service in services}
    kinds = {name: cluster.kinds[cluster.node_kind[n]] for n, name in enumerate(cluster.node_names)}
    slices: dict[tuple[str, int], list[Slice]] = defaultdict(list)
    for each in plan.slices:
        slices[each.node, each.gpu].append(each)
    gpus = [
        _Gpu(f"{node}, GPU {gpu}", kinds[node].gpu_type, tuple(parts), latency[kinds[node].gpu_type], by_id)
        for (node, gpu), parts in slices.items()
    ]
    claims = _Claims(plan, by_id, _shares(gpus))
    found = [broken for gpu in gpus for broken in (*_unusable(gpu), *_too_much(gpu, claims), *_too_late(gpu))]
    for service in services:
        rate = claims.served(service.service_id) + plan.unserved.get(service.service_id, 0.0)
        if rate < service.rate_per_s * (1 - ROUNDING):
            found.append(Violation(str(service.service_id), "requests a second", rate, service.rate_per_s))
        elif claims.made(service.service_id) and not claims.kept(service.service_id):
            rule, most = f"requests a second at random, {plan.tail:.6g} in time", claims.at_random(service.service_id)
            found.append(Violation(str(service.service_id), rule, sum(most), service.rate_per_s))
    return found


def _shares(gpus: list[_Gpu]) -> dict[int | str, list[_Share]]:
    """All turns of each service."""
    found: dict[int | str, list[_Share]] = defaultdict(list)
    for gpu in gpus:
        for part in gpu.slices:
            for turn in part.turns:
                found[turn.service].append(_Share(gpu, part, turn, turn.batch * 1000.0 / gpu.period_ms(part)))
    return found


@dataclass(frozen=True, eq=False)
class _Claims:
    """What a plan says of each service's requests: served if they come evenly, and mostly if at random."""

    plan: PartitionPlan
    services: Mapping[int | str, Service]
    shares: Mapping[int | str, list[_Share]]

    def evenly(self, name: int | str) -> float:
        """Requests a second that all its turns can do."""
        return sum(each.rate for each in self.shares.get(name, []))

    def served(self, name: int | str) -> float:
        """The same, of a service with something missing as far as the networks of its GPUs let it in beside others."""
        if name not in self.plan.unserved or name not in self.shares:
            return self.evenly(name)
        load = min(1.0, self.services[name].rate_per_s / self.evenly(name))
        return sum(each.rate * load * self._let_in(each.gpu) for each in self.shares[name])

    def _let_in(self, gpu: _Gpu) -> float:
        """The part of what is not promised that a GPU's network has room for."""
        kept = min(self.network(gpu, at_random=at_random) for at_random in (False, True))
        rest = sum(self._network_of(name, gpu, at_random=False) for name in self.plan.unserved)
        return min(1.0, max(NETWORK_GBIT - kept, 0.0) / rest) if rest else 1.0

    def made(self, name: int | str) -> bool:
        """Whether a plan says anything of requests at random."""
        return self.plan.tail is not None and name not in self.plan.unserved and name in self.shares

    def kept(self, name: int | str) -> bool:
        """With all its turns loaded alike, with a queue of its own or one for all; or as each can be."""
        turns, missed = self._turns(name), self._missed
        load = self.services[name].rate_per_s / sum(self._useful(name))
        return (
            all(turn.keeps(load, missed) or turn.with_places(int(places)).keeps(load, missed) for turn, places in turns)
            or sum(self.at_random(name)) >= self.services[name].rate_per_s
        )

    def _turns(self, name: int | str) -> list[tuple[RandomTurn, float]]:
        """Its turns, and how many places all of them together have in the time of one round of each.

        Requests that come together count as one, which is in time if all of them are.
        """
        size = self.services[name].at_once
        turns = [each.gpu.at_random(each.part, each.turn).in_bunches(size) for each in self.shares[name]]
        per_ms = sum(self._useful(name)) / size / 1000.0
        return [(turn, max(min(per_ms * turn.round_ms, MOST_PLACES), turn.places)) for turn in turns]

    def _useful(self, name: int | str) -> list[float]:
        """What each of its turns can do evenly, as far as there is a use for it."""
        size = self.services[name].at_once
        return [each.rate * useful_part(each.turn.batch, size) for each in self.shares[name]]

    def at_random(self, name: int | str) -> list[float]:
        """Requests a second for which each of its turns keeps the promise.

        All turns of a service have one queue. In the time of one round of a turn they have so many places together,
        and each turn is loaded as one that has them all; between whole numbers of places, in proportion.
        """
        found = []
        for rate, (turn, places) in zip(self._useful(name), self._turns(name), strict=True):
            below = turn.with_places(int(places)).most_load(self._missed)
            above = turn.with_places(ceil(places)).most_load(self._missed) if places % 1.0 else below
            found.append((below + (above - below) * (places % 1.0)) * rate)
        return found

    @property
    def _missed(self) -> float:
        return (1.0 - (self.plan.tail or 0.0)) * (1 + ROUNDING)

    def network(self, gpu: _Gpu, *, at_random: bool) -> float:
        """What of the network a GPU needs for what is promised, if turns get requests by what they do in either case.

        Of services with something missing, no more is let in than there is room for.
        """
        names = (name for name in self.shares if name not in self.plan.unserved)
        return sum(self._network_of(name, gpu, at_random=at_random) for name in names)

    def _network_of(self, name: int | str, gpu: _Gpu, *, at_random: bool) -> float:
        shares = self.shares.get(name, [])
        if not any(each.gpu is gpu for each in shares):
            return 0.0
        able = self.at_random(name) if at_random and self.made(name) else [each.rate for each in shares]
        load = min(1.0, self.services[name].rate_per_s / sum(able))
        here = sum(rate for rate, each in zip(able, shares, strict=True) if each.gpu is gpu)
        return network_gbit(gpu.latency.gpu.models[gpu.model(name)].input_bytes, here * load)


def _unusable(gpu: _Gpu) -> list[Violation]:
    turns = [turn for part in gpu.slices for turn in part.turns]
    wrong = [turn for turn in turns if not usable_types(gpu.services[turn.service], (gpu.gpu_type,))]
    return [Violation(f"{gpu.name}, {turn.service}", "turns on a GPU type that it cannot use", 1, 0) for turn in wrong]


def _too_much(gpu: _Gpu, claims: _Claims) -> list[Violation]:
    share = sum(part.thousandths for part in gpu.slices)
    models = gpu.latency.gpu.models
    memory = sum(
        CONTEXT_MB + sum(models[gpu.model(turn.service)].memory_mb for turn in part.turns)
        for part in gpu.slices if part.turns
    )  # fmt: skip
    network = claims.network(gpu, at_random=False)
    if network > NETWORK_GBIT * (1 + ROUNDING):
        network = claims.network(gpu, at_random=True)
    limits = [
        ("thousandths of the GPU", share, WHOLE), ("MB of memory", memory, USABLE_MEMORY * gpu.latency.gpu.memory_mb),
        ("Gbit/s of input", network, NETWORK_GBIT),
    ]  # fmt: skip
    return [Violation(gpu.name, *each) for each in limits if each[1] > each[2] * (1 + ROUNDING)]


def _too_late(gpu: _Gpu) -> list[Violation]:
    """Whoever just misses a batch waits for a whole period, and then for all turns of the next."""
    found = []
    for part in gpu.slices:
        worst = gpu.busy_ms(part) + gpu.period_ms(part)
        for turn in part.turns:
            slo_ms = gpu.services[turn.service].slo_ms
            if worst > slo_ms * (1 + ROUNDING):
                where = f"{gpu.name}, {part.thousandths / 10:g} %, {turn.service}"
                found.append(Violation(where, "ms until an answer", worst, slo_ms))
    return found
