"""A simulated GPU as the controller sees it: claims of its clients in, words for their gates out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from gpuyard.core.arrays import Floats
from gpuyard.core.errors import InputError
from gpuyard.core.kernel import box
from gpuyard.core.sharing import SharedJob, SharingExperiment
from gpuyard.policies.timeshare import TimeSharing
from gpuyard.policies.timeshare.launch import Cap, LaunchClaim, Launching, LaunchTerms, ShareAccounts
from gpuyard.simulation.device.events import advance, obey
from gpuyard.simulation.device.line import place_of
from gpuyard.simulation.device.opening import new_sharing
from gpuyard.simulation.device.state import DONE, ENDED, EVENTS, IDLE, TICKETS, UNKNOWN, JobsDone
from gpuyard.simulation.device.time_sharing import ask_held_share, ask_rates

AT_ONCE = 2_000_000
"""Events between two looks at whether anybody wants to stop."""
ROOM = 65_536
"""Jobs done that are kept before they are taken away."""


@dataclass(frozen=True)
class _Client:
    """A job as the device sees it; its kernels stand in the line one by one, so it has no ticket of its own."""

    priority: int
    share: float
    demand: float
    ticket: int = 0


class SimulatedGpu:
    """Processes that share one GPU, in virtual time."""

    def __init__(
        self,
        jobs: Sequence[SharedJob],
        sharing: TimeSharing,
        launching: Launching,
        seconds: float,
        between: Callable[[], None] = lambda: None,
        events_at_once: int = AT_ONCE,
    ) -> None:
        """`between` is called after so many events, or fewer; what it raises ends the simulation."""
        _check_held(jobs, sharing)
        self.jobs, self.now, self._seconds = tuple(jobs), 0.0, seconds
        self.between, self._at_once = between, events_at_once
        self._sharing, self._launching = sharing, launching
        self._clients = [_Client(job.priority, job.share, job.demand) for job in jobs]
        self._caps = [Cap(job.sync_every, job.window, job.layers) for job in jobs]
        self._profiled_s = [job.expected_kernel_s or job.sequence.mean_s for job in jobs]
        self._accounts = ShareAccounts(launching.over_s)
        self._done: list[JobsDone] = []
        self.state = new_sharing(self.jobs, ROOM)
        self._boxed = box(self.state)
        self.events = 0

    def wait(self, last: list[LaunchTerms] | None) -> bool:
        """Run until terms are to be looked at again; before the first, not at all."""
        if last is None:
            return True
        self._run(self.now + self._launching.look_s)
        return not self._is_over

    def snapshot(self) -> list[LaunchClaim]:
        """What each client claims now."""
        total = self.used_s().tolist()
        active = (self.state.launchers.active > 0).tolist()
        owed = self._accounts.settle(total, active, [job.share for job in self.jobs])
        return [self._claim(number, job, total[number], owed[number]) for number, job in enumerate(self.jobs)]

    def apply(self, decision: list[LaunchTerms]) -> None:
        """Write the words of every client's gate."""
        words = self.state.processes
        for number, terms in enumerate(decision):
            words.level[number] = -1 if terms.level is None else terms.level
            words.sync_every[number], words.window[number] = terms.cap.sync_every, terms.cap.window
            words.layers[number] = terms.cap.layers
            words.hold_s[number] = terms.hold_s
        obey(self._boxed, self.now)

    def used_s(self) -> Floats:
        """GPU time of each client so far."""
        queues, used = self.state.queues, self.state.launchers.used_s.copy()
        for queue in np.flatnonzero(queues.end_s < inf):
            used[queues.process[queue]] += queues.rate[queue] * (self.now - queues.since_s[queue])
        return used

    @property
    def launches(self) -> int:
        """Kernels launched so far."""
        return int(self.state.totals[TICKETS])

    def done(self) -> JobsDone:
        """All jobs done so far, in the order in which they ended."""
        self._take_away()
        columns: Any = [np.concatenate(parts) for parts in zip(*self._done, strict=True)]
        return JobsDone(*columns)

    @property
    def _is_over(self) -> bool:
        return bool((self.state.launchers.phase == ENDED).all())

    def _run(self, until_s: float) -> None:
        totals = self.state.totals
        while self.now < until_s and not self._is_over:
            in_turn = self._sharing.takes_turns
            self.now = advance(self._boxed, self.now, until_s, self._seconds, in_turn, self._at_once)
            self.events += int(totals[EVENTS])
            if totals[UNKNOWN]:
                self._ask_for_rates(int(totals[UNKNOWN]))
            if totals[DONE] == ROOM:
                self._take_away()
            self.between()

    def _ask_for_rates(self, clients: int) -> None:
        numbers = [number for number in range(len(self.jobs)) if clients >> number & 1]
        place = place_of(clients, len(self.state.rates.clients))
        self.state.rates.clients[place] = clients
        self.state.rates.rate[place, numbers] = ask_rates(self._sharing, [self._clients[number] for number in numbers])

    def _take_away(self) -> None:
        rows = int(self.state.totals[DONE])
        taken: Any = [column[:rows].copy() for column in self.state.done]
        self._done.append(JobsDone(*taken))
        self.state.totals[DONE] = 0

    def _claim(self, number: int, job: SharedJob, total_s: float, owed_s: float) -> LaunchClaim:
        launchers = self.state.launchers
        begun = launchers.phase[number] not in (IDLE, ENDED)
        in_flight, jobs = int(launchers.in_flight[number]), int(launchers.jobs[number])
        kernels = len(job.sequence.durations_s)
        ended = int(launchers.kernel[number]) - in_flight if begun else 0
        # As profiled; as measured once a job is done.
        kernel_s = total_s / (jobs * kernels + ended) if jobs else self._profiled_s[number]
        return LaunchClaim(
            job.name, job.priority, job.share, inf if job.slo_s is None else job.slo_s, job.gated, self._caps[number],
            bool(launchers.active[number]), in_flight, owed_s,
            running_s=self.now - float(launchers.arrived_s[number]) if begun else 0.0,
            remaining_s=(kernels - ended) * kernel_s, kernels=float(kernels), kernel_s=kernel_s,
        )  # fmt: skip


def jobs_of(experiment: SharingExperiment, gpu: int) -> list[SharedJob]:
    """Return the jobs of one GPU.

    Where all else is equal, processes go by priority and then by name: the order in which they were given says nothing.
    """
    ranked = sorted(experiment.jobs, key=lambda job: (-job.priority, job.name))
    return [job for job in ranked if job.gpu == gpu]


def _check_held(jobs: Sequence[SharedJob], sharing: TimeSharing) -> None:
    held = sum(ask_held_share(sharing, job.share) for job in jobs)
    if held > 1 + 1e-9:
        rule = f"promises {held:g} of a GPU to its {len(jobs)} jobs"
        asked = sum(job.share for job in jobs)
        hint = "Give each a share; together they are at most 1"
        if asked <= 1 + 1e-9:
            hint = (
                "It is for one job a GPU, whatever its share: give each job a gpu of its own, or choose another sharing"
            )
        raise InputError(rule, field="sharing", value=str(sharing), hint=hint)
