"""What every turn of a plan can take of its service's requests, and what all turns of each service take together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gpuyard.core.service import Service
from gpuyard.policies.partition.interface import PartitionPlan, Slice
from gpuyard.policies.partition.latency import LatencyModel
from gpuyard.policies.partition.tail import loads

Rates = dict[int | str, float]


def turn_rates(
    slices: Sequence[Slice],
    services: Mapping[int | str, Service],
    latency: Mapping[str, LatencyModel],
    tail: float | None,
    *,
    among_others: bool = False,
) -> list[float]:
    """Requests a second that each turn can take so that this part of them is in time; None: evenly spaced ones.

    Turns are in the order of the slices, `latency` is by node. Several turns of one service take at least the sum: if
    its requests were dealt to them at random, in proportion to what each takes, each turn would get requests at random
    at its own rate. One queue for all is better, for nobody waits at one turn while another has a place: a turn is
    loaded as one that has the places of all. `among_others` says that these slices are a part of a plan in which all
    turns of a service do its rate at the least.
    """
    turns = [(part, turn) for part in slices for turn in part.turns]
    most = [turn.batch / part.period_s for part, turn in turns]
    if tail is None or not turns:
        return most
    evenly = PartitionPlan(tuple(slices)).capacity()
    if among_others:
        evenly = {name: max(rate, services[name].rate_per_s) for name, rate in evenly.items()}
    rounds = {id(part): sum(each.takes_s for each in part.turns) for part in slices}
    rows = [
        (
            turn.batch, (services[turn.service].slo_ms / 1000.0 - turn.takes_s) / rounds[id(part)],
            latency[part.node].shrinks(services[turn.service].model, turn.batch, part.thousandths // 10)
            * turn.takes_s / rounds[id(part)],
            len(part.turns) == 1, evenly[turn.service] * rounds[id(part)], services[turn.service].at_once,
        ) for part, turn in turns
    ]  # fmt: skip
    found: list[float] = (loads(tail).part(*np.array(rows).T) * most).tolist()
    return found


def service_rates(
    slices: Sequence[Slice],
    services: Mapping[int | str, Service],
    latency: Mapping[str, LatencyModel],
    tail: float | None,
    *,
    among_others: bool = False,
) -> Rates:
    """The same for all turns of each service."""
    names = [turn.service for part in slices for turn in part.turns]
    total: Rates = {}
    rates = turn_rates(slices, services, latency, tail, among_others=among_others)
    for name, rate in zip(names, rates, strict=True):
        total[name] = total.get(name, 0.0) + rate
    return total
