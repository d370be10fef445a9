"""Two requests through everything that serving may use, so that it is compiled before it is needed."""

from __future__ import annotations

import numpy as np

from gpuyard.core.service import Service
from gpuyard.policies.partition import PartitionPlan, Slice, Turn
from gpuyard.policies.partition.deployment import Deployment, serving_cluster
from gpuyard.simulation.serving.world import SimulatedServer


def rehearse() -> None:
    """Serve on one slice and then on another."""
    services, cluster = (Service("one", "lenet", 1.0, 100.0),), serving_cluster("1x2080ti")
    turns = (Turn("one", 1, 0.001),)
    plans = [PartitionPlan((Slice("node0", 0, share, 0.0, turns, 0.001),)) for share in (1000, 500)]
    first, second = (Deployment(services, cluster, plan) for plan in plans)
    server = SimulatedServer(services, first, np.array([0.0, 1.0]), np.zeros(2, np.int64))
    server.run_until(0.5)
    server.switch(second)
    server.close()
