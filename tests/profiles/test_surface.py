"""Throughput on GPU types other than the measured one, in Python and compiled."""

from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.profiles import ModelProfile, Zoo, load_zoo
from gpuyard.profiles.surface import stacked, surface_speed

ZOO = load_zoo()
NAMES = st.sampled_from(ZOO.names)
AMOUNTS = st.tuples(st.floats(0, 100), st.floats(0, 400), st.floats(0, 600))
FACTORS = st.floats(0.05, 20)


def on(profile: ModelProfile, factor: float) -> ModelProfile:
    """The same model, with a GPU type called "other" that is this much faster."""
    return replace(profile, gpu_speed={"other": factor})


def measured(profile: ModelProfile, cpus: float, memory: float, storage: float) -> float:
    """The speed on the measured GPU type, as numpy interpolates it."""
    rows = [np.interp(memory, profile.memory_grid, row) for row in profile.throughput]
    fed = float(np.interp(cpus, profile.cpu_grid, rows)) * min(1.0, cpus / float(profile.cpu_grid[0]))
    wish, knee = profile.storage_mbps, min(profile.storage_mbps, 62.5)
    limit = np.interp(storage, [0.0, knee, wish], [0.0, 1.0, profile.top_speed]) if storage < wish else np.inf
    return min(fed, float(limit))


@given(NAMES, AMOUNTS)
def test_on_the_measured_type_it_is_the_grid(name: str, amounts: tuple[float, float, float]) -> None:
    profile = ZOO.profile(name)
    assert profile.speed(*amounts) == pytest.approx(measured(profile, *amounts), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", ZOO.names)
def test_measured_points_are_met_to_the_last_bit(name: str) -> None:
    profile = ZOO.profile(name)
    got = [[profile.fed_speed(cpus, memory) for memory in profile.memory_grid] for cpus in profile.cpu_grid]
    assert np.array_equal(got, profile.throughput)


@given(NAMES, AMOUNTS, FACTORS)
def test_a_slower_gpu_takes_what_it_can_of_what_it_is_fed(
    name: str, amounts: tuple[float, float, float], factor: float
) -> None:
    profile = on(ZOO.profile(name), min(factor, 1.0))
    ceiling = profile.top_speed * min(factor, 1.0)
    assert profile.speed(*amounts, gpu_type="other") == min(profile.speed(*amounts), ceiling)


@given(NAMES, AMOUNTS, FACTORS, FACTORS)
def test_a_faster_gpu_is_never_slower(
    name: str, amounts: tuple[float, float, float], one: float, another: float
) -> None:
    slow, fast = (on(ZOO.profile(name), factor).speed(*amounts, gpu_type="other") for factor in sorted((one, another)))
    most = slow * max(one, another) / min(one, another)
    assert slow <= fast <= most * (1 + 1e-12) + 1e-300  # below that, numbers have fewer digits


@given(NAMES, AMOUNTS, AMOUNTS, FACTORS)
def test_more_never_slows_down(
    name: str, amounts: tuple[float, float, float], more: tuple[float, float, float], factor: float
) -> None:
    profile = on(ZOO.profile(name), factor)
    larger = (amounts[0] + more[0], amounts[1] + more[1], amounts[2] + more[2])
    assert profile.speed(*amounts, gpu_type="other") <= profile.speed(*larger, gpu_type="other") + 1e-12


def test_a_faster_gpu_needs_more_cpus_to_be_fed(zoo: Zoo) -> None:
    """res50 reaches its best, 1.15, with 4 CPUs: a GPU of twice the speed needs 8."""
    twice = on(zoo.profile("res50"), 2.0)
    speeds = [twice.speed(cpus, 62.5, 1e3, "other") for cpus in (3, 4, 6, 8, 20)]
    assert speeds == pytest.approx([1.0, 1.15, 1.725, 2.3, 2.3])


def test_a_faster_gpu_needs_more_storage_to_be_fed(zoo: Zoo) -> None:
    """alexnet wants 125 MB/s at its best, 2.94."""
    twice = on(zoo.profile("alexnet"), 2.0)
    speeds = [twice.speed(24, 125, storage, "other") for storage in (62.5, 125, 187.5, 250, 1e3)]
    assert speeds == pytest.approx([1.0, 2.94, 4.41, 5.88, 5.88])


def test_a_faster_gpu_does_not_make_up_for_memory(zoo: Zoo) -> None:
    """alexnet stops at 2.0 with 62.5 GB, whatever else it has: there the GPU waits for the disk."""
    assert on(zoo.profile("alexnet"), 2.0).speed(24, 62.5, 1e3, "other") == 2.0
    assert on(zoo.profile("alexnet"), 2.0).speed(24, 125, 1e3, "other") == pytest.approx(5.88)


def test_memory_points_with_needs_of_their_own() -> None:
    profile = ModelProfile(
        name="cache",
        title="Cache",
        task="image",
        batch=1,
        iteration_s=1.0,
        cpu_grid=np.array([2.0, 4.0]),
        memory_grid=np.array([50.0, 100.0]),
        throughput=np.array([[0.5, 1.0], [1.0, 1.0]]),
        storage_mbps=0.0,
        spread_penalty=1.0,
        gpu_speed={"other": 10.0},
    )
    speeds = [profile.fed_speed(8, memory, "other") for memory in (50, 75, 100, 500)]
    assert speeds == [2.0, 2.0, 4.0, 4.0]


def test_compiled_stacked_and_plain_agree_to_the_last_bit() -> None:
    profiles = [on(ZOO.profile(name), factor) for name in ZOO.names for factor in (0.3, 1.0, 2.5)]
    surfaces = [profile.surface("other") for profile in profiles]
    together = stacked(surfaces)
    compiled: Any = numba.njit(surface_speed)
    draws = np.random.default_rng(7).uniform(0, [60, 300, 400], (100, 3))
    for cpus, memory, storage in (*draws.tolist(), *np.floor(draws).tolist(), (3.0, 62.5, 62.5), (24.0, 250.0, 500.0)):
        for at, surface in enumerate(surfaces):
            expected = surface_speed(*surface, cpus, memory, storage)
            assert profiles[at].speed(cpus, memory, storage, "other") == expected
            assert compiled(*(part[at] for part in together), cpus, memory, storage) == expected
