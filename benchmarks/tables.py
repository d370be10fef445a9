"""What reading and showing costs: the figures and the page of a long run, and the bundled GPU kinds."""

from __future__ import annotations

from benchmarks.limits import Figure
from benchmarks.measure import best_in_turn
from gpuyard import generate, simulate
from gpuyard.core.cluster import Cluster
from gpuyard.profiles.gpu_files import bundled_kinds
from gpuyard.reports.page import build_report
from gpuyard.results import summarise

CLUSTER = "16x8:cpus=24,memory=500GB"


def run(repeats: int = 3, jobs: int = 8000) -> list[Figure]:
    """Measure on a run with many preemptions; sorting its spans is the least that any figure of them takes."""
    made = simulate(CLUSTER, generate(jobs=jobs, load=9.0, seed=42), "las+tune")
    table, timeline, cluster = made.jobs, made.timeline, Cluster.parse(CLUSTER)
    best = best_in_turn(
        repeats,
        sort=lambda: timeline.sort("end_s", "start_s"),
        summary=lambda: summarise(table, timeline, cluster, policy="las+tune"),
        page=lambda: build_report([made]),
        kinds=bundled_kinds,
    )
    return [
        Figure("tables: spans of the run that is shown", timeline.height),
        Figure("tables: summary over sorting the spans", best["summary"] / best["sort"], "x"),
        Figure("tables: page of the run", best["page"], "CPU s", most=20, portable=False),
        Figure("tables: loading the GPU kinds", 1e3 * best["kinds"], "CPU ms", most=20, portable=False),
    ]
