"""Progressive filling: who is next when the tenant that has least is always served first."""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.kernel import kernel
from gpuyard.policies.arrange import arrange


@kernel
def filling(active: Ints, tenant: Ints, size: Floats, demand: Floats, totals: Floats) -> Floats:
    """For each active job the dominant share of what its tenant's earlier jobs demand together.

    `tenant`, `size` (GPUs) and `demand` are of all jobs; `totals` has the cluster's GPUs first, then the rest.
    """
    key = np.empty(len(active))
    by_tenant = arrange(active, -tenant[active], np.zeros(len(active)))
    so_far, at_start = np.zeros(len(totals)), np.zeros(len(totals))
    last = -1
    for place in by_tenant:
        job = active[place]
        most = 0.0
        for r in range(len(totals)):
            share = (size[job] if r == 0 else demand[job, r - 1]) / totals[r]
            so_far[r] += share
            before = so_far[r] - share
            if tenant[job] != last:
                at_start[r] = before
            most = max(most, before - at_start[r])
        last = tenant[job]
        key[place] = most
    return key
