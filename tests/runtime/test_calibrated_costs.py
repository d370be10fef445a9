"""A world whose costs are known, measured and simulated again: the same costs, and the same times."""

from pathlib import Path

import pytest
from tests.runtime.virtual_yard import VirtualYard

from gpuyard.core.workload import Workload
from gpuyard.policies.resolve import resolve
from gpuyard.profiles import load_zoo
from gpuyard.reports.calibration import calibrate
from gpuyard.reports.gap import gap_between
from gpuyard.results import Run
from gpuyard.runtime.real_cluster import RunRules
from gpuyard.runtime.run_folder import make_run
from gpuyard.simulation.engine import simulate_cluster
from gpuyard.simulation.options import make_options
from gpuyard.traces import generate, read_cluster

CLUSTER = "2x4:cpus=12,memory=250GB"
STEP_S = 2.0
"""Longer than a step of any model: where somebody is stopped, part of a step is lost."""


def ran(jobs: Workload, policy: str, folder: Path, *, start_s: float, save_s: float) -> Run:
    yard = VirtualYard(read_cluster(CLUSTER), load_zoo(), folder, RunRules(300.0), start_s=start_s, save_s=save_s)
    yard.run(jobs, resolve(policy))
    return make_run(yard.world, load_zoo(), policy=policy, load=None, timing={})


def simulated(jobs: Workload, policy: str, costs: dict[str, float]) -> Run:
    options = make_options({name.replace("-", "_"): value for name, value in costs.items()})
    return simulate_cluster(read_cluster(CLUSTER), jobs, policy, options)


def test_known_costs_are_found_again_and_explain_the_gap(tmp_path: Path) -> None:
    jobs = generate(jobs=20, load=6, seed=1, durations="small")
    real = ran(jobs, "fifo+tune", tmp_path, start_s=40.0, save_s=15.0)
    start = calibrate([real]).costs[0]
    assert start.samples == pytest.approx([55.0] * 20, abs=STEP_S)
    bare = gap_between(simulated(jobs, "fifo+tune", {}), real)
    assert bare is not None
    assert bare.mean_jct.other_s - bare.mean_jct.first_s > 50
    assert bare.causes_s["start_up"] == pytest.approx(40.0)
    assert bare.causes_s["checkpoints"] == pytest.approx(15.0)
    assert bare.causes_s["step_time"] == pytest.approx(0.0, abs=STEP_S)
    told = gap_between(simulated(jobs, "fifo+tune", calibrate([real]).options()), real)
    assert told is not None
    assert told.mean_jct.gap == pytest.approx(0.0, abs=0.001)


@pytest.mark.parametrize("policy", ["srtf+tune", "las+proportional"])
def test_the_same_where_jobs_are_stopped_and_go_on(policy: str, tmp_path: Path) -> None:
    jobs = generate(jobs=20, load=12, seed=2, durations="small")
    real = ran(jobs, policy, tmp_path, start_s=40.0, save_s=0.0)
    start, restart, *_ = calibrate([real]).costs
    assert len(restart.samples) > 10 or policy == "srtf+tune"
    assert [*start.samples, *restart.samples] == pytest.approx(
        [40.0] * (len(start.samples) + len(restart.samples)), abs=STEP_S
    )
    gap = gap_between(simulated(jobs, policy, calibrate([real]).options()), real)
    assert gap is not None
    assert gap.mean_jct.gap == pytest.approx(0.0, abs=0.01)
