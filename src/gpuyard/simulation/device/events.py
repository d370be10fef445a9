"""The events of sharing a GPU, compiled: processes launch, synchronise and wait; kernels end.

At one instant kernels end, then jobs end, then processes that have waited go on, then jobs begin, then launch calls
return, in the order in which they were made, and then holds lapse. So a job's end opens the gate for whoever waits
there before the same process shuts it again with its next job; and calls that cost no time do no more than calls that
cost very little. All else goes by numbers. A kernel's end is worked out from the last change of its rate, never added
up step by step.
"""

from __future__ import annotations

import numpy as np

from gpuyard.core.kernel import Boxed, inner, kernel
from gpuyard.simulation.device.line import rates_changed
from gpuyard.simulation.device.state import (
    DONE,
    DRAIN,
    ENDED,
    EVENTS,
    FINISH,
    GATED,
    HELD,
    HIGHEST,
    IDLE,
    LAUNCH,
    SYNC,
    TICKETS,
    TURNS,
    UNKNOWN,
    WINDOW,
    SharingState,
)


@kernel
def advance(
    boxed: Boxed[SharingState], now_s: float, until_s: float, stop_s: float, in_turn: bool, most_events: int
) -> float:
    """Let everything happen up to and including an instant, and return it; closed loops begin no job from `stop_s` on.

    Returns earlier, with the time reached, where somebody has to help: so many events have passed, the room for jobs
    done is full, or the device's rates are not known for the clients that have work.
    """
    sharing = boxed.value
    queues, launchers, totals = sharing.queues, sharing.launchers, sharing.totals
    totals[EVENTS] = 0
    if totals[UNKNOWN]:
        rates_changed(sharing, now_s, in_turn)
    while totals[UNKNOWN] == 0 and totals[DONE] < len(sharing.done.process) and totals[EVENTS] < most_events:
        queue, process = int(np.argmin(queues.end_s)), _first_to_go_on(sharing)
        ends_s, goes_on_s = queues.end_s[queue], launchers.at_s[process]
        lapses_s = np.min(launchers.held_s) if totals[HELD] > 0 else np.inf
        next_s = min(ends_s, goes_on_s, lapses_s)
        if next_s > until_s or next_s == np.inf:
            return until_s if until_s < np.inf else now_s
        totals[EVENTS] += 1
        now_s = next_s
        if lapses_s < min(ends_s, goes_on_s):
            _lapse(sharing, now_s)
        elif ends_s <= goes_on_s:
            _end_kernel(sharing, queue, now_s, in_turn)
        else:
            _go_on(sharing, process, now_s, stop_s, in_turn)
    return now_s


@kernel
def obey(boxed: Boxed[SharingState], now_s: float) -> None:
    """Let words that were written take effect: whoever waits at the gate and need not any more goes on."""
    _levels_changed(boxed.value, now_s)


@inner
def _first_to_go_on(sharing: SharingState) -> int:
    """The process that goes on next; of several at one instant, by what they do and then by who called first."""
    launchers = sharing.launchers
    first = 0
    for process in range(1, len(launchers.at_s)):
        at_s, first_s = launchers.at_s[process], launchers.at_s[first]
        if at_s < first_s or (at_s == first_s and _goes_before(sharing, process, first)):
            first = process
    return first


@inner
def _goes_before(sharing: SharingState, process: int, other: int) -> bool:
    launchers = sharing.launchers
    rank, other_rank = _rank(launchers.phase[process]), _rank(launchers.phase[other])
    return rank < other_rank or (rank == other_rank and launchers.turn[process] < launchers.turn[other])


@inner
def _rank(phase: int) -> int:
    if phase == FINISH:
        return 0
    if phase == IDLE:
        return 2
    return 3 if phase == LAUNCH else 1


@inner
def _go_on(sharing: SharingState, process: int, now_s: float, stop_s: float, in_turn: bool) -> None:
    phase = sharing.launchers.phase[process]
    if phase == IDLE:
        _begin_job(sharing, process, now_s)
    elif phase == LAUNCH:
        _line_up(sharing, process, now_s, in_turn)
        _after_launch(sharing, process, now_s)
    elif phase == FINISH:
        _finish_job(sharing, process, now_s, stop_s)
    elif phase == WINDOW:
        _launch(sharing, process, now_s)
    else:
        if phase in (SYNC, DRAIN):
            sharing.launchers.since_sync[process] = 0
        _next_kernel(sharing, process, now_s)


@inner
def _begin_job(sharing: SharingState, process: int, now_s: float) -> None:
    launchers = sharing.launchers
    launchers.arrived_s[process] = now_s
    if sharing.processes.arrival_end[process] >= 0:
        launchers.arrived_s[process] = sharing.arrivals_s[launchers.arrival[process]]
        launchers.arrival[process] += 1
    launchers.began_s[process] = now_s
    launchers.kernel[process] = launchers.preemptions[process] = launchers.syncs[process] = 0
    launchers.waited_s[process] = 0.0
    if launchers.held_s[process] < np.inf:
        launchers.held_s[process] = np.inf
        sharing.totals[HELD] -= 1
    _next_kernel(sharing, process, now_s)


@inner
def _next_kernel(sharing: SharingState, process: int, now_s: float) -> None:
    """Launch the next kernel if gate and window allow it; after the last, wait for all."""
    processes, launchers = sharing.processes, sharing.launchers
    if launchers.kernel[process] == processes.kernels[process]:
        _wait_until_empty(sharing, process, now_s, FINISH)
        return
    level = processes.level[process]
    if level >= 0:
        if launchers.active[process] == 0:
            launchers.active[process] = 1
            sharing.totals[HIGHEST] = max(sharing.totals[HIGHEST], level)
        if sharing.totals[HIGHEST] > level:
            _give_way(sharing, process, now_s)
            return
    if launchers.gate_s[process] < np.inf:
        launchers.waited_s[process] += now_s - launchers.gate_s[process]
        launchers.gate_s[process] = np.inf
    launchers.at_s[process] = np.inf
    launchers.phase[process] = WINDOW
    window = processes.window[process]
    begins_group = window > 0 and launchers.since_sync[process] % window == 0
    if not begins_group or launchers.in_flight[process] <= window:
        _launch(sharing, process, now_s)


@inner
def _launch(sharing: SharingState, process: int, now_s: float) -> None:
    """Call the driver. Whoever waited for its window has passed the gate before, and does not look at it again."""
    launchers = sharing.launchers
    sharing.totals[TURNS] += 1
    launchers.turn[process] = sharing.totals[TURNS]
    launchers.phase[process] = LAUNCH
    launchers.at_s[process] = now_s + sharing.processes.launch_s[process]


@inner
def _give_way(sharing: SharingState, process: int, now_s: float) -> None:
    """A higher level is active: drain all streams, then wait. A job that had launched something was preempted."""
    launchers = sharing.launchers
    if launchers.gate_s[process] == np.inf:
        launchers.gate_s[process] = now_s
        launchers.preemptions[process] += launchers.kernel[process] > 0
    if launchers.in_flight[process] > 0:
        _wait_until_empty(sharing, process, now_s, DRAIN)
    else:
        launchers.phase[process] = GATED
        launchers.at_s[process] = np.inf


@inner
def _line_up(sharing: SharingState, process: int, now_s: float, in_turn: bool) -> None:
    """The launch call returns: its kernel stands in the queue of its stream."""
    processes, launchers, queues, totals = sharing.processes, sharing.launchers, sharing.queues, sharing.totals
    number = launchers.kernel[process]
    sharing.kernels.ticket[processes.first[process] + number] = totals[TICKETS]
    totals[TICKETS] += 1
    launchers.kernel[process] += 1
    launchers.since_sync[process] += 1
    launchers.in_flight[process] += 1
    launchers.longest[process] = max(launchers.longest[process], launchers.in_flight[process])
    queue = processes.first_stream[process] + number % processes.streams[process]
    if queues.busy[queue] == 0:
        queues.busy[queue] = 1
        queues.head[queue] = number
        queues.left_s[queue] = sharing.kernels.duration_s[processes.first[process] + number]
        queues.since_s[queue] = now_s
        rates_changed(sharing, now_s, in_turn)


@inner
def _after_launch(sharing: SharingState, process: int, now_s: float) -> None:
    """Synchronise where a cap or a layer says so."""
    processes, launchers = sharing.processes, sharing.launchers
    every = processes.sync_every[process]
    launched = processes.first[process] + launchers.kernel[process] - 1
    at_layer = processes.layers[process] == 1 and sharing.kernels.layer_end[launched] == 1
    if at_layer or (every > 0 and launchers.since_sync[process] >= every):
        launchers.syncs[process] += 1
        _wait_until_empty(sharing, process, now_s, SYNC)
    else:
        _next_kernel(sharing, process, now_s)


@inner
def _wait_until_empty(sharing: SharingState, process: int, now_s: float, phase: int) -> None:
    """Wait for all streams of a process, and pay for it."""
    launchers = sharing.launchers
    launchers.phase[process] = phase
    empty = launchers.in_flight[process] == 0
    launchers.at_s[process] = now_s + sharing.processes.sync_s[process] if empty else np.inf


@inner
def _finish_job(sharing: SharingState, process: int, now_s: float, stop_s: float) -> None:
    processes, launchers, done = sharing.processes, sharing.launchers, sharing.done
    row = sharing.totals[DONE]
    sharing.totals[DONE] += 1
    done.process[row], done.finished_s[row] = process, now_s
    done.arrived_s[row], done.began_s[row] = launchers.arrived_s[process], launchers.began_s[process]
    done.waited_s[row], done.preemptions[row] = launchers.waited_s[process], launchers.preemptions[process]
    done.syncs[row] = launchers.syncs[process]
    launchers.jobs[process] += 1
    launchers.since_sync[process] = launchers.turn[process] = 0
    launchers.phase[process] = IDLE
    think = processes.first_think[process] + (launchers.jobs[process] - 1) % processes.thinks[process]
    begins_s = now_s + sharing.thinks_s[think]
    more = begins_s < stop_s or launchers.jobs[process] < processes.least_jobs[process]
    if processes.arrival_end[process] >= 0:
        more = launchers.arrival[process] < processes.arrival_end[process]
        if more:
            begins_s = max(now_s, sharing.arrivals_s[launchers.arrival[process]])
    if not more:
        launchers.phase[process] = ENDED
        begins_s = np.inf
    launchers.at_s[process] = begins_s
    if launchers.active[process] == 1 and more and processes.hold_s[process] > 0:
        launchers.held_s[process] = now_s + processes.hold_s[process]
        sharing.totals[HELD] += 1
    elif launchers.active[process] == 1:
        launchers.active[process] = 0
        _levels_changed(sharing, now_s)


@inner
def _lapse(sharing: SharingState, now_s: float) -> None:
    """Who has no job, and is not waited for any longer, is active no more."""
    launchers = sharing.launchers
    for process in range(len(launchers.held_s)):
        if launchers.held_s[process] <= now_s:
            launchers.held_s[process] = np.inf
            launchers.active[process] = 0
            sharing.totals[HELD] -= 1
    _levels_changed(sharing, now_s)


@inner
def _levels_changed(sharing: SharingState, now_s: float) -> None:
    launchers, level = sharing.launchers, sharing.processes.level
    highest = -1
    for process in range(len(level)):
        if launchers.active[process] == 1:
            highest = max(highest, level[process])
    sharing.totals[HIGHEST] = highest
    for process in range(len(level)):
        if launchers.phase[process] == GATED and (level[process] < 0 or level[process] >= highest):
            launchers.at_s[process] = now_s


@inner
def _end_kernel(sharing: SharingState, queue: int, now_s: float, in_turn: bool) -> None:
    queues, launchers = sharing.queues, sharing.launchers
    process = queues.process[queue]
    launchers.used_s[process] += queues.rate[queue] * (now_s - queues.since_s[queue])
    launchers.in_flight[process] -= 1
    queues.head[queue] += sharing.processes.streams[process]
    queues.since_s[queue] = now_s
    queues.end_s[queue] = np.inf
    if queues.head[queue] < launchers.kernel[process]:
        queues.left_s[queue] = sharing.kernels.duration_s[sharing.processes.first[process] + queues.head[queue]]
        if not in_turn:
            queues.end_s[queue] = now_s + queues.left_s[queue] / queues.rate[queue]
    else:
        queues.busy[queue] = 0
        queues.rate[queue] = 0.0
    if in_turn or queues.busy[queue] == 0:
        rates_changed(sharing, now_s, in_turn)
    phase = launchers.phase[process]
    if phase in (SYNC, DRAIN, FINISH) and launchers.in_flight[process] == 0:
        launchers.at_s[process] = now_s + sharing.processes.sync_s[process]
    elif phase == WINDOW and launchers.in_flight[process] <= sharing.processes.window[process]:
        launchers.at_s[process] = now_s
