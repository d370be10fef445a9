"""Dominant resource fairness between tenants."""

from __future__ import annotations

import numpy as np

from gpuyard.policies.snapshot import Keys, Snapshot


def drf(snapshot: Snapshot) -> Keys:
    """Tenant with the smallest dominant share first, job by job (Ghodsi et al., NSDI'11, algorithm 1).

    Progressive filling gives the next job to the tenant that has least. A job's key is what its tenant holds once that
    tenant's earlier jobs run: sorting by it is the filling. A tenant's own jobs keep their order of arrival.
    """
    totals = np.array([snapshot.cluster.total_gpus, *snapshot.totals])
    shares = np.column_stack([snapshot.gpus, snapshot.wanted]) / np.maximum(totals, 1e-9)
    by_tenant = np.lexsort((snapshot.active, snapshot.tenant))
    held = np.cumsum(shares[by_tenant], axis=0) - shares[by_tenant]
    tenants = snapshot.tenant[by_tenant]
    starts = np.searchsorted(tenants, tenants)
    key = np.empty(len(by_tenant))
    key[by_tenant] = (held - held[starts]).max(axis=1, initial=0.0)
    return Keys(key)
