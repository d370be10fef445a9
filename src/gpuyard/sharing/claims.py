"""What clients of a gated GPU claim, from the counters that they keep: what a policy of launching decides by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from gpuyard.policies.timeshare.launch import Cap, LaunchClaim, LaunchTerms
from gpuyard.policies.timeshare.launch.accounts import ShareAccounts
from gpuyard.sharing.calls import UNGATED
from gpuyard.sharing.ground import GpuTimes
from gpuyard.sharing.group import ClientState, GatedGpu, Terms

MOST_GONE = 1000
"""Clients that have left are remembered, as they had their part of the GPU's time; from so many on it begins anew."""


ANOTHER_KIND = 2
"""A job that has launched so many times what others did is none like them."""


class GpuClaims:
    """The claims of one GPU's clients, look by look."""

    def __init__(self, over_s: float, speed: float = 1.0, times: GpuTimes | None = None) -> None:
        """`speed` is the GPU's seconds for one of the host's: counters are of the host's time, claims of the GPU's.

        `times` knows the GPU time of each process better than the gate does, which sees only what is queued.
        """
        self._over_s, self._speed, self._times = over_s, speed, times
        self._begin()

    def _begin(self) -> None:
        self._accounts = ShareAccounts(self._over_s)
        self._seen: dict[int, ClientState] = {}
        """Everybody who was ever seen, by ticket: tickets grow, so this is the order of the accounts."""
        self._used_s: dict[int, float] = {}
        """GPU time of each of them."""

    def of(self, gpu: GatedGpu) -> list[LaunchClaim]:
        """Return a claim for each client, in the order of the GPU's."""
        if len(self._seen) > len(gpu.clients) + MOST_GONE:
            self._begin()
        measured_s = self._times(gpu.key) if self._times is not None and gpu.clients else {}
        for client in sorted(gpu.clients, key=lambda each: each.ticket):
            self._seen[client.ticket] = client
            self._used_s[client.ticket] = self._gpu_time(client, measured_s)
        owed = dict(zip(self._seen, self._settle({client.ticket for client in gpu.clients}), strict=True))
        return [claim_of(client, gpu.now_ns, owed[client.ticket], self._speed) for client in gpu.clients]

    def _gpu_time(self, client: ClientState, measured_s: Mapping[int, float]) -> float:
        if self._times is None:
            return client.busy_ns / 1e9 * self._speed
        return measured_s.get(client.pid, self._used_s.get(client.ticket, 0.0))  # it may have just left the GPU

    def _settle(self, here: set[int]) -> list[float]:
        everybody = self._seen.values()
        return self._accounts.settle(
            [self._used_s[client.ticket] for client in everybody],
            [client.active and client.ticket in here for client in everybody],
            [client.share for client in everybody],
        )


def claim_of(client: ClientState, now_ns: int, owed_s: float = 0.0, speed: float = 1.0) -> LaunchClaim:
    """Return what a client claims, in seconds of a GPU that passes so many of them in one of the host's."""
    begun = client.job_launches if client.active else 0
    kernels = _launches_of_a_job(client, begun)
    kernel_s = client.busy_ns / client.done_launches / 1e9 * speed if client.done_launches else 0.0
    capped = client.terms.sync_every or client.terms.window
    return LaunchClaim(
        str(client.ticket),
        priority=max(client.own.level, 0),
        share=client.share,
        slo_s=client.slo_s or inf,
        gated=client.own.level != UNGATED,
        own=Cap(client.own.sync_every, client.own.window),
        active=client.active,
        in_flight=client.queued,
        owed_s=owed_s,
        running_s=(now_ns - client.job_since_ns) / 1e9 * speed if client.active else 0.0,
        remaining_s=max(0.0, kernels - begun) * kernel_s,
        kernels=kernels,
        kernel_s=kernel_s,
        longest_queue=inf if capped or not client.longest_queue else client.longest_queue,
    )


def _launches_of_a_job(client: ClientState, begun: int) -> float:
    """Return the mean of the jobs that are done, unless the present one is another kind of thing.

    A program that never pauses for longer than its hold has one job for ever. What it does again and again is what it
    launches from synchronisation to synchronisation.
    """
    mean = (client.launches - begun) / client.jobs_done if client.jobs_done else 0.0
    if begun <= ANOTHER_KIND * mean or not client.resumptions:
        return mean
    return client.resumed_launches / client.resumptions


def words_of(terms: Sequence[LaunchTerms], speed: float = 1.0) -> list[Terms]:
    """Return what a gate obeys of a policy's terms; layers are for the program itself to keep."""
    return [
        Terms(
            UNGATED if each.level is None else each.level, each.cap.sync_every, each.cap.window,
            round(each.hold_s / speed * 1e9),
        )
        for each in terms
    ]  # fmt: skip
