"""Nodes that leave service and come back, from a list or at a seeded rate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.simulation.options import Failure, Options

YEAR_S = 365 * 86400.0
HORIZON_S = 10 * YEAR_S
"""Random failures are drawn for this long; no simulated trace is longer."""


class NodeEvent(NamedTuple):
    """A node goes down or comes back."""

    at_s: float
    node: int
    down: bool


def node_events(cluster: Cluster, options: Options) -> list[NodeEvent]:
    """All failures of a simulation in order of time; a node's overlapping failures are merged."""
    failures = [*options.failures, *_drawn(cluster, options)]
    events: list[NodeEvent] = []
    back_at = np.full(cluster.nodes, -np.inf)
    for failure in sorted(failures, key=lambda failure: (failure.at_s, failure.node)):
        if not 0 <= failure.node < cluster.nodes:
            raise InputError(
                f"is not a node of this cluster, which has nodes 0 to {cluster.nodes - 1}",
                field="failures",
                value=failure.node,
            )
        if failure.at_s < back_at[failure.node]:
            continue
        back_at[failure.node] = failure.at_s + failure.down_s
        events.append(NodeEvent(failure.at_s, failure.node, True))
        events.append(NodeEvent(failure.at_s + failure.down_s, failure.node, False))
    return sorted(events)


def _drawn(cluster: Cluster, options: Options) -> list[Failure]:
    if options.failures_per_node_year == 0:
        return []
    random = np.random.default_rng([options.seed, 0xFA11])
    mean_s = YEAR_S / (options.failures_per_node_year * cluster.nodes)
    count = int(HORIZON_S / mean_s)
    times = np.cumsum(random.exponential(mean_s, count))
    nodes = random.integers(0, cluster.nodes, count)
    down = random.exponential(options.repair_s, count)
    return [Failure(int(node), float(at), float(off)) for node, at, off in zip(nodes, times, down, strict=True)]
