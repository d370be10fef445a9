"""What a run was made from, as `run.json` says it: equal inputs and version give equal runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gpuyard._version import __version__
from gpuyard.core.cluster import Cluster
from gpuyard.core.workload import Workload


def run_inputs(
    world: str, policy: str, cluster: Cluster, workload: Workload, *, measured: Workload | None = None, **further: Any
) -> dict[str, Any]:
    """The inputs that every run with jobs has, and further ones; `measured` are the jobs whose times count."""
    return {
        "version": __version__,
        "world": world,
        "policy": policy,
        "cluster": {
            "text": str(cluster),
            "nodes": cluster.nodes,
            "gpus": cluster.total_gpus,
            "groups": [asdict(group) for group in cluster.groups],
        },
        "workload": {
            "source": workload.source,
            "jobs": len(workload),
            "digest": workload.digest(),
            "measured_digest": (workload if measured is None else measured).digest(),
            "notes": list(workload.notes),
        },
        **further,
    }
