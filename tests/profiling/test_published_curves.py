"""What optimistic profiling would have told of the ten models whose matrices Synergy published."""

from statistics import fmean

import pytest

from gpuyard.profiles import ModelProfile, load_zoo
from gpuyard.profiling.job import JobProfile
from gpuyard.profiling.optimistic import JobModel, Measurement

STEPS = 100


def sweep_of(published: ModelProfile) -> tuple[list[int], dict[int, float]]:
    """Return the CPUs that would have been measured, and the error at all published ones, with all data cached."""
    rates = dict(zip(map(int, published.cpu_grid), map(float, published.throughput[:, -1]), strict=True))
    measured: list[int] = []

    def run(cpus: int, *, synthetic: bool = False) -> Measurement:
        if synthetic:
            return Measurement((1 / published.top_speed,), STEPS)
        measured.append(cpus)
        return Measurement((1 / rates[cpus],), STEPS)

    profile = JobProfile(published.name, tuple(rates))
    profile.measure(run, lambda *_: None)
    return measured, {cpus: abs(1 / profile.model.cached_s(cpus) / rate - 1) for cpus, rate in rates.items()}


def test_of_nine_published_points_of_each_model_five_or_six_tell_the_others() -> None:
    zoo = load_zoo()
    told = {name: sweep_of(zoo.profile(name)) for name in zoo.default_names}
    assert {len(measured) for measured, _ in told.values()} == {5, 6}
    errors = [error for _, each in told.values() for error in each.values()]
    assert len(errors) == 90
    assert fmean(errors) == pytest.approx(0.0045, abs=0.0005)
    assert max(errors) == pytest.approx(0.071, abs=0.001)  # m5 with 5 CPUs, before a leap at 6


def test_the_cache_model_tells_the_published_memory_points_but_for_the_smallest() -> None:
    """m5 with 24 CPUs is published at 1.5, 2 and 2.5; two of these are enough for its data and its disk."""
    m5 = load_zoo().profile("m5")
    published = dict(zip(m5.memory_grid.tolist(), m5.throughput[-1].tolist(), strict=True))
    slope = (1 / published[62.5] - 1 / published[125]) / 62.5  # seconds that a cached GB takes off a step
    data_gb = 125 + 1 / published[125] / slope
    uncached_s = 1 / published[62.5] / (1 - 62.5 / data_gb)
    point = Measurement((1 / m5.top_speed,), STEPS, 1e6, 1e6, uncached_s, 1e6, 1e-9)
    model = JobModel(1 / m5.top_speed, {24: point})
    assert data_gb == pytest.approx(312.5)
    for memory_gb in (62.5, 125, 187.5, 250):
        assert 1 / model.step_s(24, memory_gb / data_gb) == pytest.approx(published[memory_gb])
    assert 1 / model.step_s(24, 20.83 / data_gb) == pytest.approx(1.286, abs=0.001)
    assert published[20.83] == 0.1  # as of every image and speech model at every number of CPUs: nothing explains it
