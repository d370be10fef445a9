"""The three shipped examples in virtual time: what is computed from a few points, against every point measured."""

from statistics import fmean

import pytest
from tests.profiling.virtual_job import VirtualJob

from gpuyard.profiling.job import JobProfile, cpu_points

SWEEPS = {"light": [None, 8, 4, 2, 1], "heavy": [None, 8, 4, 2, 6], "text": [None, 8, 4, 2, 1]}
"""None is the GPU alone; the heavy job falls by half from 4 CPUs to 2, which ends its sweep, and
between 4 and 8 the GPU takes over."""
ALL_CACHED_MS: dict[str, dict[int, float]] = {
    "light": {1: 20, 2: 20, 8: 20},  # 8 items of 2 ms are less than the GPU takes
    "heavy": {1: 112, 2: 56, 3: 37.3333, 4: 28, 6: 20, 8: 20},  # 8 items of 14 ms on so many CPUs; 20 on the GPU
    "text": {1: 24, 2: 16, 3: 16, 8: 16},
}
STORAGE_MBPS = {"light": 16, "heavy": 9, "text": 3}


@pytest.fixture(params=SWEEPS)
def example(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def job(example: str, monkeypatch: pytest.MonkeyPatch) -> VirtualJob:
    return VirtualJob.of_example(example, monkeypatch)


@pytest.fixture
def profile(example: str, job: VirtualJob) -> JobProfile:
    profile = JobProfile(example, cpu_points(8))
    profile.measure(job, lambda *_: None)
    return profile


def test_few_points_are_measured(example: str, job: VirtualJob, profile: JobProfile) -> None:
    assert job.measured == SWEEPS[example]
    assert len(job.measured) <= len(profile.rows()) / 5


def test_with_all_data_cached_every_row_is_what_the_pipeline_gives(example: str, profile: JobProfile) -> None:
    for cpus, step_ms in ALL_CACHED_MS[example].items():
        assert 1e3 * profile.model.step_s(cpus, 1.0) == pytest.approx(step_ms, rel=1e-3)
    assert profile.model.disk.bytes_s == pytest.approx(1e6 * STORAGE_MBPS[example], rel=5e-3)


def test_with_nothing_cached_the_disk_is_the_limit_where_it_is_slower(example: str, profile: JobProfile) -> None:
    step_ms = {"light": 20, "heavy": 20, "text": 8 * 16384 / 3e6 * 1e3}
    assert 1e3 * profile.model.step_s(8, 0.0) == pytest.approx(step_ms[example], rel=1e-3)


def test_the_whole_matrix_is_as_if_it_had_been_measured(job: VirtualJob, profile: JobProfile) -> None:
    errors = []
    for row in profile.rows():
        measured = job(row["cpus"], memory_gb=row["memory_gb"])
        errors.append(abs(row["step_ms"] / 1e3 / measured.typical_s - 1))
    assert fmean(errors) < 0.01
    assert max(errors) < 0.05  # what is not cached comes in no even order
