"""The rules of serving, as functions of numbers: a simulator compiles them, a server calls them as they are.

Every service has one queue, oldest first. A slice goes round its turns; one that nobody waits for is passed over, any
other takes as many requests as its batch has places, at once: no batch waits to be filled, and fewer requests take
less time. An idle slice starts as soon as a request of one of its services arrives. So no request is ever tied to a
slice that is slow to come round while another has a place.

Why a plan that passes the check answers everybody in time, when the requests of each service arrive evenly spaced and
no faster than planned: let a turn t have the batch b(t), and let S(t) be the sum of all turns of its slice beside the
worst neighbours. No batch takes longer than planned, so a turn for which somebody waits starts within S(t), and again
within S(t) after that. Let the queue have been empty until B. By T > B at most R(T - B) + 1 requests have arrived, and
each turn has started more than (T - B)/S(t) - 1 times, with b(t) requests each. The plan has R at most the sum of
b(t)/S(t); so fewer than 1 + sum b(t), that is at most sum b(t), are left in the queue. All of these are taken once
every turn has come round: within S, the largest S(t). Their batch takes no longer than S either, and the check has
2 S within the SLO.

Only upper bounds are used: the load of others plays no part, batches of fewer requests only help, and the same is true
if all batches take less time than planned.
"""

from __future__ import annotations

from math import inf

from gpuyard.core.arrays import Ints
from gpuyard.core.compilable import compilable

ROUNDING = 1e-6
"""Of an SLO, as for the check of a plan."""


@compilable
def deadline(arrival_s: float, slo_s: float) -> float:
    """When a request has to be answered."""
    return arrival_s + slo_s * (1.0 + ROUNDING)


@compilable
def is_refused(waiting: int, places: int, capacity_per_s: float, least_s: float, slo_s: float) -> bool:
    """Whether a request comes too late even if all turns of its service start now and do nothing else.

    `waiting` are those ahead of it, `places` those of one batch of each turn, `capacity_per_s` what the turns do when
    their slices have no other work, and `least_s` what the fastest takes for one request.
    """
    return soonest_s(waiting, places, capacity_per_s, least_s) > slo_s * (1.0 + ROUNDING)


@compilable
def is_refused_by_stage(
    waiting: int, places: int, capacity_per_s: float, least_s: float, deadline_s: float, now_s: float
) -> bool:
    """The same of a stage of an application, which has to answer by its own `stage_deadline`."""
    return now_s + soonest_s(waiting, places, capacity_per_s, least_s) > deadline_s


@compilable
def stage_deadline(arrival_s: float, slo_s: float, rest_s: float) -> float:
    """When a stage has to answer, so that those behind it, which take `rest_s` at least, can end the request in time.

    Arrival and SLO are the application's: a stage may use whatever those before it have left.
    """
    return deadline(arrival_s, slo_s) - rest_s


@compilable
def soonest_s(waiting: int, places: int, capacity_per_s: float, least_s: float) -> float:
    """How soon all turns of a service could answer one more request if they did nothing else."""
    if places == 0:
        return inf
    return max(waiting + 1 - places, 0) / capacity_per_s + least_s


@compilable
def next_turn(first: int, last: int, latest: int, turn_service: Ints, waiting: Ints) -> int:
    """The turn of a slice, which has those from `first` to before `last`, that runs after `latest`; -1 if none."""
    count = last - first
    for step in range(1, count + 1):
        turn = first + (latest - first + step) % count
        if waiting[turn_service[turn]] > 0:
            return turn
    return -1


@compilable
def batch_of(waiting: int, places: int) -> int:
    """How many requests run together."""
    return min(waiting, places)


@compilable
def is_too_late(deadline_s: float, now_s: float, takes_s: float) -> bool:
    """Whether the oldest request is to be dropped: the batch, by the plan's figures, would end after its deadline."""
    return now_s + takes_s > deadline_s


@compilable
def slowdown(alone_s: float, raw_s: float, own: float, pressure: float) -> float:
    """How many times as long a batch takes while others press on it; gathering it, a part of `alone_s`, is not slowed.

    `own` is its own part of the interference factor, `pressure` the most that any running neighbour adds to it.
    """
    longer_s = raw_s * (max(own + pressure, 1.0) - 1.0)
    return (alone_s + longer_s) / alone_s
