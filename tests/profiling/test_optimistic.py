"""Few points, the rest computed: on jobs whose times are given, so that nothing depends on the machine."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.profiles.files import parse
from gpuyard.profiles.model import ModelProfile
from gpuyard.profiling.job import JobProfile, cpu_points
from gpuyard.profiling.optimistic import Bandwidth, JobModel, Measurement, sweep

EPOCH, STEP_BYTES, MEMORY_BYTES_S = 32, 1e6, 1e10


class GivenJob:
    """A step takes the longest of the GPU, the preparation and the fetch, all given."""

    def __init__(self, gpu_s: float, prepare_s: float, disk_mbps: float) -> None:
        self.gpu_s, self.prepare_s, self.disk_bytes_s = gpu_s, prepare_s, disk_mbps * 1e6
        self.points: list[int] = []

    def step_s(self, cpus: float, cached: float = 1.0) -> float:
        fetch = STEP_BYTES * ((1 - cached) / self.disk_bytes_s + cached / MEMORY_BYTES_S)
        return max(self.gpu_s, self.prepare_s / cpus, fetch)

    def run(self, cpus: int, *, synthetic: bool = False) -> Measurement:
        if synthetic:
            return Measurement((self.gpu_s,), EPOCH)
        self.points.append(cpus)
        whole = EPOCH * STEP_BYTES
        return Measurement(
            (self.step_s(cpus),) * 2, EPOCH, STEP_BYTES,
            disk_bytes=whole, disk_s=whole / self.disk_bytes_s,
            memory_bytes=2 * whole, memory_s=2 * whole / MEMORY_BYTES_S,
        )  # fmt: skip


def profiled(job: GivenJob, most: int = 12, data_gb: float | None = None) -> JobProfile:
    profile = JobProfile("given", cpu_points(most), data_gb)
    profile.measure(job.run, lambda *_: None)
    return profile


def as_read(profile: JobProfile) -> ModelProfile:
    text = json.dumps({"models": {"given": profile.entry("V100")}})
    return parse(text, "x").profiles["given"]


@pytest.mark.parametrize(("gpu_s", "prepare_s", "disk"), [(0.02, 0.01, 80), (0.02, 0.2, 40), (0.02, 0.05, 5)])
def test_what_was_not_measured_is_told(gpu_s: float, prepare_s: float, disk: float) -> None:
    job = GivenJob(gpu_s, prepare_s, disk)
    profile = profiled(job)
    for row in profile.rows():
        assert row["step_ms"] == pytest.approx(1e3 * job.step_s(row["cpus"], row["cached_pct"] / 100), rel=1e-6)
    assert len(job.points) + 1 <= len(profile.rows()) / 5


@pytest.mark.parametrize(
    ("most", "gpu_s", "prepare_s", "measured"),
    [
        (16, 0.02, 0.2, [16, 8, 4, 12]),  # the GPU down to 10 CPUs; from 8 to 4 by half
        (12, 0.02, 0.01, [12, 6, 3, 1]),  # always the GPU
        (7, 0.001, 0.2, [7, 3]),  # by seven thirds from the start
        (4, 0.02, 0.045, [4, 2, 1, 3]),  # 2 CPUs are a little too few, which is no fall by half yet
        (4, 0.02, 0.03, [4, 2, 1]),  # nothing lies between 1 and 2
    ],
)
def test_the_sweep_stops_when_the_rate_falls_as_the_cpus_do(
    most: int, gpu_s: float, prepare_s: float, measured: list[int]
) -> None:
    job = GivenJob(gpu_s, prepare_s, 40)
    assert [cpus for cpus, _ in sweep(most, gpu_s, job.run)] == measured


def test_between_measured_points_rates_are_interpolated_and_beyond_the_gpu_nothing_is_gained() -> None:
    given = {cpus: Measurement((step_s,), EPOCH) for cpus, step_s in {8: 0.01, 4: 0.016, 2: 0.03}.items()}
    model = JobModel(0.01, given)
    assert model.cached_s(3) == pytest.approx(1 / ((1 / 0.016 + 1 / 0.03) / 2))
    assert model.cached_s(6) == pytest.approx(0.016 * 4 / 6)  # as the CPUs, up to the GPU
    assert model.cached_s(7) == pytest.approx(0.01)
    assert model.cached_s(1) == pytest.approx(0.06)
    assert model.cached_s(16) == pytest.approx(0.01)


def test_noise_is_worth_no_cpus() -> None:
    by_cpus = {8: Measurement((0.0201,), EPOCH), 4: Measurement((0.0203,), EPOCH), 2: Measurement((0.0395,), EPOCH)}
    profile = JobProfile("given", cpu_points(8))
    profile.gpu, profile.by_cpus = Measurement((0.02,), EPOCH), by_cpus
    assert as_read(profile).best()[0] == 4
    profile.by_cpus[4] = Measurement((0.021,), EPOCH)  # 5 % longer than the GPU's: these four CPUs are too few
    assert as_read(profile).best()[0] == 6


def test_a_busy_moment_does_not_count_but_is_told() -> None:
    found = Measurement((0.02, 0.05, 0.021), EPOCH)
    assert found.typical_s == 0.021
    assert found.spread == pytest.approx(0.03 / 0.021)


def test_a_bandwidth_is_all_bytes_by_all_seconds_and_its_spread_needs_two_points() -> None:
    assert Bandwidth.of([(100.0, 1.0), (300.0, 1.0)]) == Bandwidth(200.0, 1.0)
    assert Bandwidth.of([(100.0, 1.0), (300.0, 3.0)]) == Bandwidth(100.0, 0.0)
    assert Bandwidth.of([(100.0, 1.0), (0.0, 0.0)]) == Bandwidth(100.0, None)
    assert Bandwidth.of([]) == Bandwidth(0.0, None)


def test_the_cache_model_by_hand() -> None:
    """1 MB a step, 40 MB/s and 10 GB/s: 25 ms from the disk, 0.1 ms from memory; a quarter cached is 18.775 ms."""
    model = profiled(GivenJob(0.01, 0.02, 40)).model
    assert 1e3 * model.fetch_s(0.25) == pytest.approx(18.775)
    assert model.storage_mbps(12, 0.25) == pytest.approx(40)  # the fetch is the limit: all that there is
    assert 1e3 * model.fetch_s(0.75) == pytest.approx(6.325)
    assert model.storage_mbps(12, 0.75) == pytest.approx(0.25 / (0.01 - 0.000075))
    assert model.storage_mbps(1, 0.75) == pytest.approx(0.25 / (0.02 - 0.000075))
    assert model.storage_mbps(12, 1.0) == 0
    assert profiled(GivenJob(0.01, 0.02, 40)).model.data_bytes == pytest.approx(32e6)


def test_memory_points_are_tenths_and_where_the_gpu_no_longer_waits() -> None:
    parts = profiled(GivenJob(0.01, 0.01, 40)).model.cached_parts()
    assert {0.01, *(tenth / 10 for tenth in range(1, 11))} <= set(parts)
    assert 0.60241 in parts  # 25 ms - 24.9 ms · 0.60241 is 10 ms


@given(
    gpu_ms=st.floats(1, 100), prepare_ms=st.floats(1, 1000), disk=st.floats(0.5, 1000), most=st.integers(3, 64),
    cpus=st.integers(1, 64), part=st.floats(0.01, 1), data=st.one_of(st.none(), st.floats(0.1, 1e4)),
)  # fmt: skip
def test_between_the_points_of_its_file_the_profile_is_close_to_the_job(
    gpu_ms: float, prepare_ms: float, disk: float, most: int, cpus: int, part: float, data: float | None
) -> None:
    job = GivenJob(gpu_ms / 1e3, prepare_ms / 1e3, disk)
    profile = profiled(job, most, data)
    read = as_read(profile)
    cpus, size_gb = min(cpus, most), data or EPOCH * STEP_BYTES / 1e9
    told = read.fed_speed(cpus, part * size_gb) / read.iteration_s
    assert told * job.step_s(cpus, part) == pytest.approx(1, abs=0.2)
    assert read.fed_speed(3, 62.5) == pytest.approx(1)
    assert read.iteration_s == pytest.approx(job.step_s(3, min(1, 62.5 / size_gb)), rel=0.2)


def test_data_that_no_share_can_hold_are_normalised_at_the_part_that_it_holds() -> None:
    job = GivenJob(0.01, 0.01, 40)
    read = as_read(profiled(job, data_gb=125))
    assert read.iteration_s == pytest.approx(job.step_s(3, 0.5), rel=1e-3)
    assert read.top_speed == pytest.approx(job.step_s(3, 0.5) / 0.01, rel=1e-3)
    assert read.best()[0] == 1
    assert read.best()[1] == pytest.approx(75.30, abs=0.01)


def test_the_storage_that_the_best_needs_is_that_of_the_cheapest_best() -> None:
    read = as_read(profiled(GivenJob(0.02, 0.05, 5)))
    cpus, memory_gb, storage, _ = read.best()
    assert cpus == 3
    assert storage == pytest.approx(5, rel=0.01)
    assert memory_gb == pytest.approx(0.032 * 0.90045, rel=1e-3)


def test_a_loader_that_counts_nothing_has_one_memory_point() -> None:
    profile = JobProfile("x", (1, 2, 3))
    profile.measure(lambda cpus, synthetic=False: Measurement((0.1 / cpus,), 10), lambda *_: None)
    assert profile.memory_grid == (1.0,)
    assert [row["step_ms"] for row in profile.rows()] == pytest.approx([100, 50, 100 / 3])
    assert profile.entry("V100")["storage_mbps"] == 0


def test_more_cpus_make_no_step_longer_whatever_one_point_says() -> None:
    told = {1: 0.004, 2: 0.0026, 4: 0.003, 8: 0.002}
    model = JobModel(0.001, {cpus: Measurement((step_s,), EPOCH) for cpus, step_s in told.items()})
    assert [model.cached_s(cpus) for cpus in (1, 2, 3, 4, 8)] == pytest.approx([0.004, 0.0026, 0.0026, 0.0026, 0.002])
