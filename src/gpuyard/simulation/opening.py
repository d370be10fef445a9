"""The simulated world that options ask for: the corrected one, or the published program's."""

from __future__ import annotations

from gpuyard.core.cluster import Cluster
from gpuyard.core.workload import Workload
from gpuyard.policies.facts import Facts
from gpuyard.policies.jobs import build_jobs
from gpuyard.policies.policy import Policy
from gpuyard.policies.published.jobs import build_published_jobs
from gpuyard.policies.published.resolve import resolve_published
from gpuyard.policies.resolve import resolve
from gpuyard.profiles import Zoo
from gpuyard.simulation.options import Options
from gpuyard.simulation.published_cluster import PublishedCluster
from gpuyard.simulation.resumed_cluster import ResumedCluster
from gpuyard.simulation.simulated_cluster import ReportFinished, SimulatedCluster


def find_policy(name: str, options: Options) -> Policy:
    """The policy of this name, as these options want it."""
    if options.faithful:
        return resolve_published(
            name,
            round_s=options.round_s,
            starvation_s=options.starvation_s,
            placement=options.placement,
            opt_time_limit_s=options.opt_time_limit_s,
        )
    return resolve(
        name,
        placement=options.placement,
        opt_time_limit_s=options.opt_time_limit_s,
        starvation_s=options.starvation_s,
    )


def open_cluster(
    cluster: Cluster,
    workload: Workload,
    policy: Policy,
    options: Options,
    zoo: Zoo,
    report: ReportFinished | None = None,
    facts: Facts | None = None,
) -> SimulatedCluster:
    """The simulated world of these inputs, before its first decision; with facts, one that goes on from them."""
    if facts is not None:
        return ResumedCluster(facts, policy, options, zoo, report)
    if options.faithful:
        return PublishedCluster(
            cluster, workload, lambda jobs: build_published_jobs(jobs, cluster, zoo), policy, options, zoo, report
        )
    return SimulatedCluster(
        cluster, workload, lambda jobs: build_jobs(jobs, cluster, zoo, recorded_on=options.recorded_on), policy,
        options, zoo, report,
    )  # fmt: skip
