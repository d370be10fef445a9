"""Which replica leads: a Lease of the API server, taken by who finds it free, and kept by renewing it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from gpuyard.kube.client.api import Api, ApiError

LEASE_S = 15
RENEW_S = 3.0
SURE_S = 8.0
"""After so long without renewal a leader no longer acts: what it began by then has ended before another one leads."""


class LeaderLease:
    """One replica's part in the election."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        name: str,
        me: str,
        *,
        began: Callable[[], None] = lambda: None,
        ended: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`began` is called when this replica has become the leader, before it acts; any exception puts that off.

        `ended` is called when it no longer is.
        """
        self._api, self._me, self._began, self._ended, self._clock = api, me, began, ended, clock
        self._folder = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._namespace, self._name = namespace, name
        self._renewed_at: float | None = None
        self._seen: tuple[Any, float] = (None, clock())
        """The lease as somebody else wrote it last, and when that was seen by this machine's clock."""
        self._acts = False
        """Whether it led after the last step."""

    def leads(self) -> bool:
        """Whether this replica may act now."""
        return self._renewed_at is not None and self._clock() - self._renewed_at < SURE_S

    def step(self) -> None:
        """Renew the lease, or take it if it is free."""
        led = self._acts
        try:
            self._try_to_lead()
        finally:
            self._acts = self.leads()
            if led and not self._acts:
                self._ended()

    def _try_to_lead(self) -> None:
        asked_at, led = self._clock(), self.leads()
        try:
            lease = self._read()
            if not self._may_take(lease.get("spec") or {}):
                self._renewed_at = None
                return
            self._write(lease)
            if not led:
                self._began()
            self._renewed_at = asked_at
        except ApiError:
            return  # until it no longer is sure, nothing has changed

    def _read(self) -> dict[str, Any]:
        try:
            return self._api.get(f"{self._folder}/{self._name}")
        except ApiError as error:
            if not error.not_found:
                raise
            return {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self._name, "namespace": self._namespace},
            }

    def _may_take(self, spec: dict[str, Any]) -> bool:
        """Whether it is ours, nobody's, or was not renewed for as long as it lasts; only our own clock is believed."""
        if not spec.get("holderIdentity") or spec["holderIdentity"] == self._me:
            return True
        written = (spec["holderIdentity"], spec.get("renewTime"))
        if written != self._seen[0]:
            self._seen = (written, self._clock())
        return self._clock() - self._seen[1] > float(spec.get("leaseDurationSeconds") or LEASE_S)

    def _write(self, lease: dict[str, Any]) -> None:
        before, now = lease.get("spec") or {}, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        mine = before.get("holderIdentity") == self._me
        changes = int(before.get("leaseTransitions") or 0)
        spec = {
            "holderIdentity": self._me,
            "leaseDurationSeconds": LEASE_S,
            "acquireTime": before.get("acquireTime") if mine else now,
            "renewTime": now,
            "leaseTransitions": changes if mine or not before else changes + 1,
        }
        if "resourceVersion" in lease["metadata"]:
            self._api.put(f"{self._folder}/{self._name}", {**lease, "spec": spec})
        else:
            self._api.post(self._folder, {**lease, "spec": spec})
