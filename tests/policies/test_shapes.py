"""Jobs of one shape are alike in all but their work and owner, so that one of them can be read for all."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.core.cluster import Cluster
from gpuyard.core.workload import Job, Workload
from gpuyard.policies.jobs import Jobs, build_jobs
from gpuyard.policies.published.jobs import build_published_jobs
from gpuyard.profiles import load_zoo
from gpuyard.traces import generate

BY_SHAPE = (
    "gpus", "part", "need", "size", "types", "type_speed", "type_kind", "share_type_speed", "iteration_s", "best_speed",
    "share_speed", "demand", "demand_each", "job_class", "shape", "bulk", "top", "demand_on",
)  # fmt: skip
MIXED = Cluster.parse("2x8:cpus=24,memory=500GB,type=V100+2x4:cpus=64,memory=900GB,type=A100")


def _assert_alike(jobs: Jobs) -> None:
    assert (jobs.like <= np.arange(len(jobs.like))).all()
    assert np.array_equal(jobs.like[jobs.like], jobs.like)
    for name in BY_SHAPE:
        column = getattr(jobs, name)
        assert np.array_equal(column[jobs.like], column), name


_jobs = st.builds(
    Job,
    job_id=st.just(0),
    arrival_s=st.just(0.0),
    gpus=st.sampled_from([0.25, 0.5, 1, 2, 4, 8]),
    model=st.sampled_from(["res18", "gnmt", "alexnet"]),
    duration_s=st.floats(60.0, 1e6),
    cpus=st.sampled_from([float("nan"), 2.0, 5.0]),
    gpu_types=st.sampled_from(["", "V100", "A100|V100"]),
)


@given(st.lists(_jobs, min_size=1, max_size=30))
def test_the_first_job_of_a_shape_stands_for_all_of_them(given: list[Job]) -> None:
    numbered = [replace(job, job_id=number) for number, job in enumerate(given)]
    _assert_alike(build_jobs(Workload.from_jobs(numbered), MIXED, load_zoo()))


@pytest.mark.parametrize("multi_gpu", [False, True])
def test_so_it_does_among_jobs_as_published(multi_gpu: bool) -> None:
    workload = generate(jobs=60, load=9, seed=42, multi_gpu=multi_gpu)
    _assert_alike(build_published_jobs(workload, Cluster.parse("4x8:cpus=24,memory=500GB"), load_zoo()))
