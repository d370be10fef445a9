"""The controller of a group: the policies of the simulator decide for real processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gpuyard.policies.controller import control
from gpuyard.policies.launch_terms import ask_terms
from gpuyard.policies.timeshare.launch import LaunchClaim, Launching, LaunchTerms
from gpuyard.sharing.calls import GateError, GateFault
from gpuyard.sharing.claims import GpuClaims, words_of
from gpuyard.sharing.ground import GpuTimes
from gpuyard.sharing.group import GatedGpu, Group

LONGEST_WAIT_S = 0.2
"""How long a controller may not notice that it is to end, or that another has."""

Claims = list[list[LaunchClaim]]
GroupTerms = Sequence[Sequence[LaunchTerms]]


class GatedWorld:
    """The GPUs of a group, as the controller sees them: claims are read from its segment, terms are written to it.

    A policy thinks in seconds of the GPU, of which `speed` pass in one of the host's. GPU time is what a gate can see
    of it, the time in which something was queued, unless `times` knows better.
    """

    def __init__(
        self,
        group: Group,
        policy: Launching,
        ending: threading.Event,
        speed: float = 1.0,
        times: GpuTimes | None = None,
    ) -> None:
        self._group, self._policy, self._ending, self._speed, self._times = group, policy, ending, speed, times
        self._claims: list[GpuClaims] = []
        self._seen: list[GatedGpu] = []
        self._changes = 0

    @property
    def now(self) -> float:
        """The machine's own clock."""
        return time.monotonic()

    def wait(self, last: GroupTerms | None) -> bool:
        """Wait until clients came or went, or the policy wants to look again; False when it is to end."""
        if last is None:
            return not self._ending.is_set()
        due = self.now + self._policy.look_s / self._speed
        while self._group.changes() == self._changes and self.now < due and not self._ending.is_set():
            self._group.await_change(self._changes, max(0.0, min(due - self.now, LONGEST_WAIT_S)))
        return not self._ending.is_set()

    def snapshot(self) -> Claims:
        """Look at every GPU."""
        self._changes = self._group.changes()
        self._seen = self._group.gpus()
        self._claims += [
            GpuClaims(self._policy.over_s, self._speed, self._times) for _ in self._seen[len(self._claims) :]
        ]
        return [claims.of(gpu) for claims, gpu in zip(self._claims, self._seen, strict=True)]

    def apply(self, decision: GroupTerms) -> None:
        """Write what changes."""
        for number, (gpu, terms) in enumerate(zip(self._seen, decision, strict=True)):
            words = words_of(terms, self._speed)
            if words != [client.terms for client in gpu.clients]:
                self._group.decide(number, gpu.clients, words)


def run_controller(group: Group, policy: Launching, ending: threading.Event) -> int:
    """Control a group until it is time to end; returns how many decisions that took.

    While another process controls it, this one stands by to take over.
    """
    while not ending.is_set():
        try:
            group.control()
        except GateError as error:
            if error.code != GateFault.CONTROLLED:
                raise
            ending.wait(LONGEST_WAIT_S)
            continue
        world = GatedWorld(group, policy, ending)
        return control(world, lambda claims: [ask_terms(policy, each) for each in claims])
    return 0


@contextmanager
def controlling(name: str, policy: Launching) -> Iterator[None]:
    """Control a group, or stand by, in a thread of its own."""
    ending, group = threading.Event(), Group(name)
    thread = threading.Thread(target=run_controller, args=(group, policy, ending), name="gpuyard-controller")
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
        group.close()
