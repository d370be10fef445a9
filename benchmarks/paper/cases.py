"""One simulation of the paper's experiments as a value, and many of them on all cores."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from gpuyard import Options, Workload, generate, read_cluster, read_workload
from gpuyard.profiles import Zoo, load_zoo
from gpuyard.results.summary import jct_hours
from gpuyard.simulation.engine import simulate_cluster
from gpuyard.simulation.pool import ReportShare, run_all

SHARED = Path(os.environ.get("GPUYARD_SHARED_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
"""Where the original's recorded traces are, if anywhere."""

STARVATION_S = 1000 * 3600.0
"""As in the original: where the load is more than a policy can do, the longest jobs would otherwise never end."""

TENANTS = ("large", "medium", "small")
_TENANT_OF_TEN = (0, 0, 0, 0, 0, 0, 0, 1, 1, 2)
"""Of ten jobs, seven are the large tenant's and one is the small one's."""


@dataclass(frozen=True)
class Case:
    """What one run depends on; the defaults are Synergy's main experiment."""

    policy: str
    faithful: bool = False
    load: float = 9.0
    multi_gpu: bool = False
    split: tuple[float, float, float] = (20, 70, 10)
    nodes: int = 16
    cpus: int = 24
    memory_gb: int = 500
    storage_mbps: int = 500
    jobs: int = 16_000
    seed: int = 42
    window: tuple[int, int] = (4000, 5000)
    trace: str = ""
    static: bool = False
    tenants: bool = False
    placement: str | None = None
    penalty: bool = True
    steps: bool = True
    fixed_work: bool = False
    """Durations are those at the share of a node with 24 CPUs, 500 GB and 500 MB/s, whatever the nodes have."""
    restart_cost_s: float = 0.0
    migration_cost_s: float = 0.0
    checkpoint_cost_s: float = 0.0

    @property
    def mode(self) -> str:
        return "faithful" if self.faithful else "corrected"


@dataclass(frozen=True)
class Figures:
    """What came out, in hours."""

    mean: float
    p99: float
    makespan: float
    by_tenant: tuple[float, ...] = ()


Results = Mapping[Case, Figures]


def run_cases(cases: Iterable[Case]) -> dict[Case, Figures]:
    """Simulate every case once, in parallel, and say on stderr how far it is."""
    todo = sorted(dict.fromkeys(cases), key=lambda case: "opt" not in case.policy)  # the long ones first
    found: dict[Case, Figures] = {}
    for outcome in run_all(run_case, todo):
        found[todo[outcome.index]] = outcome.result()
        if len(found) % 20 == 0 or len(found) == len(todo):
            print(f"  {len(found)} of {len(todo)} runs", file=sys.stderr, flush=True)
    return found


def run_case(case: Case, report: ReportShare) -> Figures:
    """Simulate one case."""
    cluster = read_cluster(f"{case.nodes}x8:cpus={case.cpus},memory={case.memory_gb}GB,storage={case.storage_mbps}MB/s")
    options = Options(
        faithful=case.faithful, window=None if case.trace else case.window, static=case.static, timeline=False,
        placement=case.placement, restart_cost_s=case.restart_cost_s, migration_cost_s=case.migration_cost_s,
        checkpoint_cost_s=case.checkpoint_cost_s, starvation_s=STARVATION_S,
    )  # fmt: skip
    run = simulate_cluster(cluster, workload_of(case), case.policy, options, zoo=zoo_of(case))
    report(1.0)
    by_tenant: tuple[float, ...] = ()
    if case.tenants:
        by_tenant = tuple(float(np.mean(jct_hours(run.jobs.filter(run.jobs["tenant"] == name)))) for name in TENANTS)
    summary = run.summary
    return Figures(summary["mean_jct_h"], summary["p99_jct_h"], summary["makespan_h"], by_tenant)


def workload_of(case: Case) -> Workload:
    """Read or make the jobs of a case."""
    if case.trace:
        return read_workload(SHARED / "synergy" / case.trace)
    workload = _generated(case.jobs, case.load, case.split, case.multi_gpu, case.tenants, case.seed)
    if not case.fixed_work:
        return workload
    iteration_s = np.array([load_zoo().profile(name).iteration_s for name in workload.models])[workload.model]
    work = np.floor(workload.duration_s / iteration_s)
    return replace(workload, iterations=work, duration_s=np.full(len(workload), np.nan))


@lru_cache(maxsize=4)
def _generated(
    jobs: int, load: float, split: tuple[float, float, float], multi_gpu: bool, tenants: bool, seed: int
) -> Workload:
    workload = generate(jobs=jobs, load=load, split=split, multi_gpu=multi_gpu, seed=seed)
    if not tenants:
        return workload
    return replace(workload, tenant=np.resize(np.array(_TENANT_OF_TEN, dtype=np.int32), jobs), tenants=TENANTS)


def zoo_of(case: Case) -> Zoo:
    """Return the profiles, without the penalty for spread or the steps between share and best if so asked."""
    zoo = load_zoo()
    profiles = dict(zoo.profiles)
    for name, profile in profiles.items():
        changed = profile
        if not case.penalty:
            changed = replace(changed, spread_penalty=1.0)
        if not case.steps:
            top = profile.throughput >= profile.top_speed
            changed = replace(changed, throughput=np.where(top, profile.throughput, np.minimum(profile.throughput, 1)))
        profiles[name] = changed
    return replace(zoo, profiles=profiles)
