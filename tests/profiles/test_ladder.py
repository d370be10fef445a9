"""The allocations worth giving a job."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.profiles import ModelProfile, Zoo, demand_ladder, ladder, load_zoo

SHARES = st.tuples(st.floats(0.1, 30), st.floats(1, 300), st.floats(0, 300))
NAMES = st.sampled_from(load_zoo().names)


def test_alexnet_climbs_from_its_share_to_its_best(zoo: Zoo) -> None:
    rows = ladder(zoo.profile("alexnet"), (3, 62.5, 62.5))
    assert rows[:, 0].tolist() == [3, 4, 5, 6, 9, 12]
    assert rows[:, 1].tolist() == [62.5] * 5 + [125]
    assert rows[:, 3].tolist() == [1.0, 1.25, 1.53, 1.75, 2.0, 2.94]
    assert rows[0, 2] == 62.5
    assert rows[-1, 2] == 125
    assert rows[1, 2] == pytest.approx(62.5 + 62.5 * 0.25 / 1.94, abs=1 / 1024)


def test_a_job_is_guaranteed_no_more_than_it_can_use(zoo: Zoo) -> None:
    assert ladder(zoo.profile("gnmt"), (3, 62.5, 62.5)).tolist() == [[1, 20.830078125, 20, 1]]
    # Storage holds alexnet at 1.0 however many CPUs a node has, so it is guaranteed three of its six.
    assert ladder(zoo.profile("alexnet"), (6, 62.5, 62.5))[0].tolist() == [3, 62.5, 62.5, 1]


def test_share_beyond_the_best_leaves_one_row(zoo: Zoo) -> None:
    assert ladder(zoo.profile("res18"), (24, 500, 500)).tolist() == [[9, 62.5, 62.5, 2.4]]


def test_share_between_measured_points(zoo: Zoo) -> None:
    row = ladder(zoo.profile("res18"), (3.5, 80, 62.5))[0]
    assert row.tolist() == [3.5, 62.5, 62.5, pytest.approx(1.15)]


def test_gpu_type_scales_speeds_only() -> None:
    base = {"name": "x", "title": "x", "task": "t", "batch": 1, "iteration_s": 1.0}
    grid = {"cpu_grid": np.array([3.0, 6.0]), "memory_grid": np.array([62.5]), "throughput": np.array([[1.0], [2.0]])}
    profile = ModelProfile(**base, **grid, storage_mbps=0.0, spread_penalty=1.0, gpu_speed={"A100": 2.5})  # type: ignore[arg-type]
    assert ladder(profile, (3, 62.5, 0), "A100").tolist() == [[3, 62.5, 0, 2.5], [6, 62.5, 0, 5.0]]
    assert ladder(profile, (3, 62.5, 0), "V100")[:, 3].tolist() == [1.0, 2.0]


def test_climbing_gives_nothing_back() -> None:
    # Memory and CPUs replace each other here: the share's 100 GB do what one more CPU does.
    profile = ModelProfile(
        name="cache",
        title="Cache",
        task="image",
        batch=1,
        iteration_s=1.0,
        cpu_grid=np.array([3.0, 4.0]),
        memory_grid=np.array([50.0, 100.0]),
        throughput=np.array([[0.8, 1.0], [1.2, 1.2]]),
        storage_mbps=0.0,
        spread_penalty=1.0,
    )
    assert ladder(profile, (3, 100, 0)).tolist() == [[3, 100, 0, 1.0], [4, 100, 0, 1.2]]


@given(NAMES, SHARES)
def test_every_ladder(name: str, share: tuple[float, float, float]) -> None:
    profile = load_zoo().profile(name)
    rows = ladder(profile, share)
    floored = [np.floor(amount * 1024) / 1024 for amount in share]
    assert np.all(rows[0, :3] <= floored)
    assert rows[0, 3] >= profile.speed(*floored) - 1e-9
    assert np.all(np.diff(rows[:, 3]) > 0)
    assert np.all(np.diff(rows[:, :3], axis=0) >= 0)
    assert np.array_equal(rows[:, :3] * 1024, np.floor(rows[:, :3] * 1024))
    assert rows[-1, 3] == pytest.approx(profile.top_speed)
    for row in rows:
        assert profile.speed(*row[:3]) == pytest.approx(row[3])


@given(NAMES, SHARES)
def test_no_measured_point_undercuts_the_guarantee(name: str, share: tuple[float, float, float]) -> None:
    profile = load_zoo().profile(name)
    floored = np.floor(np.array(share) * 1024) / 1024
    target, held = profile.speed(*floored), ladder(profile, share)[0]
    for cpus in np.ceil(profile.cpu_grid * 1024) / 1024:
        for memory in np.ceil(profile.memory_grid * 1024) / 1024:
            if cpus <= floored[0] and memory <= floored[1] and profile.fed_speed(cpus, memory) >= target:
                assert (held[0], held[1]) <= (cpus, memory)


def test_own_demand_above_the_share() -> None:
    assert demand_ladder(6, 31.25, 0, (3, 62.5, 62.5)).tolist() == [[3, 31.25, 0, 0.5], [6, 31.25, 0, 1]]


def test_own_demand_within_the_share() -> None:
    assert demand_ladder(2, 10, 5, (3, 62.5, 62.5)).tolist() == [[2, 10, 5, 1]]


def test_scarcest_component_sets_the_speed() -> None:
    assert demand_ladder(6, 250, 125, (3, 62.5, 62.5))[0].tolist() == [3, 62.5, 62.5, 0.25]
