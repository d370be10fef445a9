"""Dominant resource fairness between tenants."""

from __future__ import annotations

import numpy as np

from gpuyard.core.grants import WHOLE
from gpuyard.policies.plan import Keys
from gpuyard.policies.snapshot import Snapshot, moment_of


def drf(snapshot: Snapshot) -> Keys:
    """Tenant with the smallest dominant share first, job by job (Ghodsi et al., NSDI'11, algorithm 1).

    Progressive filling gives the next job to the tenant that has least. A job's key is what its tenant holds once that
    tenant's earlier jobs run: sorting by it is the filling. A tenant's own jobs keep their order of arrival.
    """
    from gpuyard.policies.order.filling import filling

    jobs = moment_of(snapshot).tables.jobs
    totals = np.maximum(np.array([snapshot.cluster.total_gpus * WHOLE, *snapshot.totals]), 1e-9)
    return Keys(filling(moment_of(snapshot).active, jobs.tenant, jobs.need, jobs.demand, totals))
