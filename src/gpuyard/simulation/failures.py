"""Nodes that leave service and come back, from a list or at a seeded rate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.simulation.failure_file import Failure
from gpuyard.simulation.options import Options

YEAR_S = 365 * 86400.0
HORIZON_S = 10 * YEAR_S
"""Random failures are drawn for this long; no simulated trace is longer."""

MOST_FAILURES = 1_000_000
"""More would take longer to draw than most runs to simulate."""


class NodeEvent(NamedTuple):
    """A node goes down or comes back."""

    at_s: float
    node: int
    down: bool


def node_events(cluster: Cluster, options: Options) -> list[NodeEvent]:
    """All failures of a simulation in order of time; what overlaps or touches on one node is one outage."""
    outages: dict[int, list[tuple[float, float]]] = {}
    for failure in sorted([*options.failures, *_drawn(cluster, options)], key=lambda failure: failure.at_s):
        if failure.node >= cluster.nodes:
            rule = f"is not a node of this cluster, which has nodes 0 to {cluster.nodes - 1}"
            raise InputError(rule, field="failures", value=failure.node)
        of_node = outages.setdefault(failure.node, [])
        begin, end = failure.at_s, failure.at_s + failure.down_s
        if of_node and begin <= of_node[-1][1]:
            begin, before = of_node.pop()
            end = max(end, before)
        of_node.append((begin, end))
    ends = ((begin, end, node) for node, of_node in outages.items() for begin, end in of_node)
    return sorted(
        event for begin, end, node in ends for event in (NodeEvent(begin, node, True), NodeEvent(end, node, False))
    )


def _drawn(cluster: Cluster, options: Options) -> list[Failure]:
    if options.failure_rate == 0:
        return []
    random = np.random.default_rng([options.seed, 0xFA11])
    mean_s = YEAR_S / (options.failure_rate * cluster.nodes)
    count = int(HORIZON_S / mean_s)
    if count > MOST_FAILURES:
        rate = MOST_FAILURES * YEAR_S / HORIZON_S / cluster.nodes
        rule = f"must be at most {rate:g} on {cluster.nodes} nodes: {MOST_FAILURES} failures in all"
        raise InputError(rule, field="failure_rate", value=options.failure_rate)
    times = np.cumsum(random.exponential(mean_s, count))
    nodes = random.integers(0, cluster.nodes, count)
    down = random.exponential(options.repair_time_s, count)
    return [Failure(int(node), float(at), float(off)) for node, at, off in zip(nodes, times, down, strict=True)]
