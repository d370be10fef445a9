"""Throughput as a function of the amounts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.profiles import REFERENCE_SHARE, ModelProfile, Zoo, load_zoo, rebased

AMOUNT = st.floats(0, 300)


def two_by_two(storage: float = 0.0) -> ModelProfile:
    """A model measured at 2 and 4 CPUs, 50 and 100 GB."""
    return ModelProfile(
        name="tiny",
        title="Tiny",
        task="image",
        batch=1,
        iteration_s=1.0,
        cpu_grid=np.array([2.0, 4.0]),
        memory_grid=np.array([50.0, 100.0]),
        throughput=np.array([[1.0, 2.0], [3.0, 6.0]]),
        storage_mbps=storage,
        spread_penalty=1.0,
    )


@pytest.mark.parametrize(
    ("cpus", "memory", "speed"),
    [
        (2, 50, 1.0),
        (4, 100, 6.0),
        (3, 50, 2.0),
        (2, 75, 1.5),
        (3, 75, 3.0),
        (40, 1000, 6.0),  # beyond the grid nothing is gained
        (3, 10, 2.0),  # below the least memory it stays as measured there
        (1, 50, 0.5),  # below the fewest CPUs it falls in proportion
        (0, 100, 0.0),
    ],
)
def test_interpolation(cpus: float, memory: float, speed: float) -> None:
    assert two_by_two().speed(cpus, memory, 0.0) == pytest.approx(speed)


@pytest.mark.parametrize(
    ("wish", "storage", "limit"),
    [
        (125.0, 0.0, 0.0),
        (125.0, 31.25, 0.5),
        (125.0, 62.5, 1.0),
        (125.0, 93.75, 3.5),  # halfway from 1.0 to the best, 6.0
        (125.0, 125.0, 6.0),
        (40.0, 20.0, 0.5),
        (40.0, 40.0, 6.0),
    ],
)
def test_storage_limits(wish: float, storage: float, limit: float) -> None:
    assert two_by_two(wish).speed(4, 100, storage) == pytest.approx(limit)


@pytest.mark.parametrize("name", load_zoo().names)
def test_reference_share_is_one(zoo: Zoo, name: str) -> None:
    assert zoo.profile(name).speed(*REFERENCE_SHARE) == 1.0
    assert rebased(zoo.profile(name), *REFERENCE_SHARE)[0] == zoo.profile(name).iteration_s


@given(st.sampled_from(load_zoo().names), AMOUNT, AMOUNT, AMOUNT, AMOUNT, AMOUNT, AMOUNT)
def test_more_never_slows_down(name: str, c: float, m: float, s: float, dc: float, dm: float, ds: float) -> None:
    profile = load_zoo().profile(name)
    before, after = profile.speed(c, m, s), profile.speed(c + dc, m + dm, s + ds)
    assert 0 <= before <= after + 1e-12
    assert after <= profile.top_speed


@given(st.sampled_from(load_zoo().names), st.floats(0, 12))
def test_storage_need_is_enough_and_least(name: str, speed: float) -> None:
    profile = replace(load_zoo().profile(name), gpu_speed={"any": 1e3})
    need = profile.storage_need(speed)
    assert profile.speed(1e5, 250, need, "any") >= speed - 1e-9
    if need > 0.01:
        assert profile.speed(1e5, 250, need - 0.01, "any") < speed
