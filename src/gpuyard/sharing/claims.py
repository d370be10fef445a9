"""What clients of a gated GPU claim, from the counters that they keep: what a policy of launching decides by."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from gpuyard.policies.timeshare.launch import Cap, LaunchClaim, LaunchTerms
from gpuyard.policies.timeshare.launch.accounts import ShareAccounts
from gpuyard.sharing.calls import UNGATED
from gpuyard.sharing.group import ClientState, GatedGpu, Terms

MOST_GONE = 1000
"""Clients that have left are remembered, as they had their part of the GPU's time; from so many on it begins anew."""


class GpuClaims:
    """The claims of one GPU's clients, look by look."""

    def __init__(self, over_s: float) -> None:
        self._over_s = over_s
        self._begin()

    def _begin(self) -> None:
        self._accounts = ShareAccounts(self._over_s)
        self._seen: dict[int, ClientState] = {}
        """Everybody who was ever seen, by ticket: tickets grow, so this is the order of the accounts."""

    def of(self, gpu: GatedGpu) -> list[LaunchClaim]:
        """Return a claim for each client, in the order of the GPU's."""
        if len(self._seen) > len(gpu.clients) + MOST_GONE:
            self._begin()
        for client in sorted(gpu.clients, key=lambda each: each.ticket):
            self._seen[client.ticket] = client
        owed = dict(zip(self._seen, self._settle({client.ticket for client in gpu.clients}), strict=True))
        return [claim_of(client, gpu.now_ns, owed[client.ticket]) for client in gpu.clients]

    def _settle(self, here: set[int]) -> list[float]:
        everybody = self._seen.values()
        return self._accounts.settle(
            [client.busy_ns / 1e9 for client in everybody],
            [client.active and client.ticket in here for client in everybody],
            [client.share for client in everybody],
        )


def claim_of(client: ClientState, now_ns: int, owed_s: float = 0.0) -> LaunchClaim:
    """Return what a client claims."""
    kernels = client.launches / client.jobs_done if client.jobs_done else 0.0
    kernel_s = client.busy_ns / client.done_launches / 1e9 if client.done_launches else 0.0
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
        running_s=(now_ns - client.job_since_ns) / 1e9 if client.active else 0.0,
        remaining_s=max(0.0, kernels - (client.job_launches if client.active else 0)) * kernel_s,
        kernels=kernels,
        kernel_s=kernel_s,
        longest_queue=inf if capped or not client.longest_queue else client.longest_queue,
    )


def words_of(terms: Sequence[LaunchTerms]) -> list[Terms]:
    """Return what a gate obeys of a policy's terms; layers are for the program itself to keep."""
    return [
        Terms(UNGATED if each.level is None else each.level, each.cap.sync_every, each.cap.window) for each in terms
    ]
