"""Who of the kernels at the head of their queues runs, and how fast, compiled.

The rates are those of a `TimeSharing`, asked once for each set of clients that have work; where they take turns,
kernels run one by one in the order in which they were launched.
"""

from __future__ import annotations

import numpy as np

from gpuyard.core.kernel import inner
from gpuyard.simulation.device.state import UNKNOWN, SharingState


@inner
def place_of(clients: int, places: int) -> int:
    """Where the rates of a set of clients are remembered; `places` is prime, so that any bits make a difference."""
    return clients % places


@inner
def rates_changed(sharing: SharingState, now_s: float, in_turn: bool) -> None:
    """Work has come or gone: let every kernel at a head go on at its new rate."""
    if in_turn:
        _run_first(sharing, now_s)
    else:
        _run_side_by_side(sharing, now_s)


@inner
def _run_first(sharing: SharingState, now_s: float) -> None:
    """Run the kernel that was launched first, unless one runs already: no later one goes before it."""
    queues = sharing.queues
    first, lowest = -1, 0
    for queue in range(len(queues.busy)):
        if queues.busy[queue] == 1:
            process = queues.process[queue]
            ticket = sharing.kernels.ticket[sharing.processes.first[process] + queues.head[queue]]
            if first < 0 or ticket < lowest:
                first, lowest = queue, ticket
    if first >= 0 and queues.end_s[first] == np.inf:
        queues.since_s[first] = now_s
        queues.rate[first] = 1.0
        queues.end_s[first] = now_s + queues.left_s[first]


@inner
def _run_side_by_side(sharing: SharingState, now_s: float) -> None:
    """Give each client its rate, split evenly among its streams that have work."""
    queues, rates, totals = sharing.queues, sharing.rates, sharing.totals
    clients = 0
    for queue in range(len(queues.busy)):
        if queues.busy[queue] == 1:
            clients |= 1 << queues.process[queue]
    place = place_of(clients, len(rates.clients))
    totals[UNKNOWN] = 0
    if clients != 0 and rates.clients[place] != clients:
        totals[UNKNOWN] = clients
        return
    for queue in range(len(queues.busy)):
        if queues.busy[queue] == 1:
            process = queues.process[queue]
            _turn(sharing, queue, now_s, rates.rate[place, process] / _busy_streams(sharing, process))


@inner
def _busy_streams(sharing: SharingState, process: int) -> int:
    first = sharing.processes.first_stream[process]
    busy = 0
    for queue in range(first, first + sharing.processes.streams[process]):
        busy += sharing.queues.busy[queue]
    return busy


@inner
def _turn(sharing: SharingState, queue: int, now_s: float, rate: float) -> None:
    """Go on at another rate."""
    queues = sharing.queues
    if queues.rate[queue] == rate and queues.end_s[queue] < np.inf:
        return
    passed_s = queues.rate[queue] * (now_s - queues.since_s[queue])
    sharing.launchers.used_s[queues.process[queue]] += passed_s
    queues.left_s[queue] = max(queues.left_s[queue] - passed_s, 0.0)
    queues.since_s[queue], queues.rate[queue] = now_s, rate
    queues.end_s[queue] = now_s + queues.left_s[queue] / rate if rate > 0 else np.inf
