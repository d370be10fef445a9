"""All that sharing a GPU is about at one instant, as arrays: processes, their streams, kernels and jobs done."""

from __future__ import annotations

from typing import NamedTuple

from gpuyard.core.arrays import Bytes, Floats, Ints

IDLE, LAUNCH, SYNC, DRAIN, GATED, WINDOW, FINISH, ENDED = range(8)
"""What a process does: waits for its next job; is in a launch call; synchronises by its cap; drains since a higher
level is active; waits at the gate; waits for its window; synchronises at the end of a job; has no more jobs."""

TICKETS, DONE, HIGHEST, UNKNOWN, EVENTS, TURNS, HELD, TOTALS = range(8)
"""Counters: kernels lined up, jobs done, the highest active level, clients whose rates must be asked for, events,
launch calls begun, processes that are active though their jobs are done."""

PLACES = 4093
"""Sets of busy clients whose rates are remembered: a prime."""


class Processes(NamedTuple):
    """One entry a process: what does not change, and the words of the gate."""

    level: Ints  # -1: it takes no part
    sync_every: Ints  # 0: no cap
    window: Ints  # 0: no cap
    hold_s: Floats
    layers: Bytes
    launch_s: Floats
    sync_s: Floats
    first_think: Ints
    thinks: Ints
    first: Ints  # of its kernels
    kernels: Ints
    streams: Ints
    first_stream: Ints
    arrival_end: Ints  # of its arrivals; -1: a closed loop
    least_jobs: Ints


class Launchers(NamedTuple):
    """One entry a process: what it is doing."""

    phase: Bytes
    at_s: Floats  # when it goes on by itself; inf while it waits for the device or the gate
    turn: Ints  # of all launch calls, which its last one was; 0 without a job
    kernel: Ints  # of its job, the next to launch
    since_sync: Ints  # launches since its queue was last known to be empty
    in_flight: Ints
    longest: Ints  # the most that was ever in flight
    active: Bytes
    held_s: Floats  # until when it is active though its job is done; inf: it is not
    arrival: Ints  # the next of its arrivals
    jobs: Ints  # done
    arrived_s: Floats
    began_s: Floats
    gate_s: Floats  # since when it waits at the gate; inf: it does not
    preemptions: Ints  # of its job
    waited_s: Floats  # likewise
    syncs: Ints  # likewise
    used_s: Floats  # GPU time, up to the last change of a rate


class StreamQueues(NamedTuple):
    """One entry a stream of a process: a queue of kernels, of which the first runs at a rate."""

    process: Ints
    busy: Bytes
    head: Ints  # of the process's job, the kernel that runs
    left_s: Floats  # of it at `since_s`
    since_s: Floats
    rate: Floats
    end_s: Floats  # inf while it does not run


class Kernels(NamedTuple):
    """All kernels of all jobs, one process after another."""

    duration_s: Floats
    layer_end: Bytes
    ticket: Ints  # its place in the line


class JobsDone(NamedTuple):
    """Room for jobs done, in the order in which they ended."""

    process: Ints
    arrived_s: Floats
    began_s: Floats
    finished_s: Floats
    waited_s: Floats
    preemptions: Ints
    syncs: Ints


class KnownRates(NamedTuple):
    """Rates of clients by who has work queued; a set's place follows from its bits."""

    clients: Ints  # the set that a place holds; 0: none
    rate: Floats  # place x client


class SharingState(NamedTuple):
    """Everything."""

    processes: Processes
    launchers: Launchers
    queues: StreamQueues
    kernels: Kernels
    arrivals_s: Floats
    thinks_s: Floats
    done: JobsDone
    rates: KnownRates
    totals: Ints
