"""Progressive filling: who is next when the tenant that has least is always served first."""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.kernel import kernel
from gpuyard.policies.arrange import arrange


@kernel
def filling(active: Ints, tenant: Ints, need: Ints, demand: Floats, totals: Floats) -> Floats:
    """For each active job the dominant share of what its tenant's earlier jobs demand together.

    `tenant`, `need` (thousandths of GPUs) and `demand` are of all jobs; `totals` has the cluster's thousandths first.
    Amounts are added up, not shares: sums of whole numbers are exact, so that equal tenants have equal keys.
    """
    key = np.empty(len(active))
    by_tenant = arrange(active, -tenant[active], np.zeros(len(active)))
    so_far = np.zeros(len(totals))
    last = -1
    for place in by_tenant:
        job = active[place]
        if tenant[job] != last:
            so_far[:] = 0.0
        last = tenant[job]
        most = 0.0
        for r in range(len(totals)):
            most = max(most, so_far[r] / totals[r])
            so_far[r] += need[job] if r == 0 else demand[job, r - 1]
        key[place] = most
    return key
