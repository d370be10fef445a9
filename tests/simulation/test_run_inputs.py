"""What a run says about its inputs."""

from __future__ import annotations

import numpy as np

import gpuyard
from gpuyard.core.workload import Job, Workload
from gpuyard.reports.pairing import same_jobs


def workload(count: int) -> Workload:
    return Workload.from_jobs(Job(number, 60.0 * number, 1, "res18", duration_s=600) for number in range(count))


def test_a_run_names_all_its_jobs_and_the_measured_ones_by_their_digests() -> None:
    jobs = workload(8)
    told = gpuyard.simulate("1x4", jobs, options=gpuyard.Options(window=(2, 5))).info["workload"]
    assert told["digest"] == jobs.digest()
    assert told["measured_digest"] == jobs.take(np.arange(2, 5)).digest()


def test_runs_of_a_workload_and_of_its_continuation_have_the_same_measured_jobs() -> None:
    window = gpuyard.Options(window=(2, 5))
    short, long, other = (
        gpuyard.simulate("1x4", jobs, options=window) for jobs in (workload(8), workload(12), workload(12).at_once())
    )
    assert short.info["workload"]["digest"] != long.info["workload"]["digest"]
    assert same_jobs(short, long)
    assert not same_jobs(short, other)
