"""Simulations of the jobs of a story."""

from dataclasses import replace
from typing import Any

from tests.policies.scenarios.stories import Known, policy_of, story_zoo

from gpuyard.core.arrays import Floats
from gpuyard.core.cluster import Cluster
from gpuyard.core.workload import Workload
from gpuyard.policies.plan import Keys
from gpuyard.policies.policy import Policy
from gpuyard.policies.snapshot import Snapshot
from gpuyard.results import Run
from gpuyard.simulation.engine import simulate_cluster
from gpuyard.simulation.options import Options


def simulated(shape: str, jobs: list[Known], policy: str | Policy, **options: Any) -> tuple[Run, list[float]]:
    """A run on such nodes as '2x4' or '1x2 A100 + 1x2 T4', and the instants of its decisions."""
    cluster = Cluster.parse("+".join(_group(part) for part in shape.split("+")))
    setting = Options(**options)
    found = policy_of(policy, starvation_s=setting.starvation_s, placement=setting.placement)
    decided: list[float] = []

    def noting(snapshot: Snapshot) -> Keys | Floats:
        decided.append(snapshot.now)
        return found.order(snapshot)

    workload = Workload.from_jobs([known.job for known in jobs])
    return simulate_cluster(cluster, workload, replace(found, order=noting), setting, zoo=story_zoo()), decided


def _group(text: str) -> str:
    """Equal nodes with 3 CPUs and 62.5 GB for each GPU, which is a V100 unless something else is said."""
    shape, _, gpu_type = text.strip().partition(" ")
    nodes, gpus = (int(number) for number in shape.split("x"))
    return f"{nodes}x{gpus}:cpus={3 * gpus},memory={62.5 * gpus}GB,type={gpu_type or 'V100'}"


def started(run: Run) -> dict[str, list[float]]:
    """When each job's spans began."""
    rows = run.timeline.sort("start_s").select("job_id", "start_s").rows()
    return {job: [start for other, start in rows if other == job] for job, _ in rows}
