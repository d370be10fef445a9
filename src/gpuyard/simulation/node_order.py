"""The order in which a simulation looks at nodes, which must not depend on how a cluster was written down."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpuyard.core.arrays import Small
from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.simulation.options import Options


class NodeOrder:
    """A cluster with its nodes sorted by kind, and the way back to the numbers that the user gave them."""

    def __init__(self, cluster: Cluster, *, keep: bool = False) -> None:
        """Sort the nodes; or keep them as a snapshot has them, from which others decide in that order, too."""
        self.cluster, self._given = (cluster, np.arange(cluster.nodes)) if keep else cluster.sorted_by_kind()
        first = np.cumsum(cluster.node_gpus) - cluster.node_gpus
        gpus = [np.arange(first[node], first[node] + cluster.node_gpus[node]) for node in self._given]
        self.gpu_numbers: Small = np.concatenate(gpus).astype(np.int32)
        """The user's number of each GPU of the sorted cluster."""

    def translated(self, options: Options) -> Options:
        """The same options, with node failures in the numbers of the sorted cluster."""
        if not options.failures:
            return options
        now = np.argsort(self._given)
        for failure in options.failures:
            if not 0 <= failure.node < len(now):
                rule = f"is not a node of this cluster, which has nodes 0 to {len(now) - 1}"
                raise InputError(rule, field="failures", value=failure.node)
        failures = tuple(replace(failure, node=int(now[failure.node])) for failure in options.failures)
        return replace(options, failures=failures)
