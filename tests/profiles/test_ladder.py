"""The allocations worth giving a job."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.profiles import ModelProfile, Zoo, demand_ladder, ladder, load_zoo

SHARES = st.tuples(st.floats(0.1, 30), st.floats(1, 300), st.floats(0, 300))
FACTORS = st.just(1.0) | st.floats(0.05, 20)
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


def test_a_faster_gpu_adds_rows_and_a_slower_one_takes_them_away(zoo: Zoo) -> None:
    profile = replace(zoo.profile("res50"), gpu_speed={"fast": 2.0, "slow": 0.8})
    fast, slow = ladder(profile, (3, 62.5, 62.5), "fast"), ladder(profile, (3, 62.5, 62.5), "slow")
    assert fast[:, 0].tolist() == [3, 4, 5, 6, 7, 8]
    assert fast[:, 3] == pytest.approx([1.0, 1.15, 1.4375, 1.725, 2.0125, 2.3])
    # 0.92 of the way from 0.74 with 2 CPUs to 1.0 with 3.
    assert slow.tolist() == [[2 + 709 / 1024, 62.5, 57.5, pytest.approx(0.92)]]
    assert ladder(profile, (3, 62.5, 62.5), "V100").tolist() == ladder(profile, (3, 62.5, 62.5)).tolist()


@pytest.mark.parametrize(
    ("name", "factor", "cpus"),
    [("alexnet", 0.2606292517006803, 2.3125), ("res18", 0.7291666666666667, 6), ("res50", 0.8271739130434783, 2.8125)],
)
def test_no_row_is_added_for_the_last_bit(zoo: Zoo, name: str, factor: float, cpus: float) -> None:
    """At so many CPUs the pipeline feeds what this GPU takes, but for a rounding error."""
    profile = replace(zoo.profile(name), gpu_speed={"other": factor})
    assert ladder(profile, (0.25, 62.5, 62.5), "other")[-1, 0] == cpus


def test_a_share_between_memory_points_keeps_its_memory_on_a_faster_gpu() -> None:
    """With 75 GB the model waits for its disk; that a fast GPU gains much from 100 GB on does not help it here."""
    profile = ModelProfile(
        name="cache",
        title="Cache",
        iteration_s=1.0,
        cpu_grid=np.array([2.0, 4.0]),
        memory_grid=np.array([50.0, 100.0]),
        throughput=np.array([[0.5, 1.0], [0.8, 1.0]]),
        gpu_speed={"fast": 10.0},
    )
    assert ladder(profile, (4, 75, 0), "fast")[0].tolist() == [4, 75, 0, pytest.approx(0.9)]


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


@given(NAMES, SHARES, FACTORS)
def test_every_ladder(name: str, share: tuple[float, float, float], factor: float) -> None:
    profile = replace(load_zoo().profile(name), gpu_speed={"other": factor})
    rows = ladder(profile, share, "other")
    cpus, memory, storage = (np.floor(amount * 1024) / 1024 for amount in share)
    assert np.all(rows[0, :3] <= [cpus, memory, storage])
    assert rows[0, 3] >= profile.speed(cpus, memory, storage, "other") - 1e-9
    assert np.all(np.diff(rows[:, 3]) > 0)
    assert np.all(np.diff(rows[:, :3], axis=0) >= 0)
    assert np.array_equal(rows[:, :3] * 1024, np.floor(rows[:, :3] * 1024))
    assert rows[-1, 3] == pytest.approx(profile.top_speed * factor)
    for cpus, memory, storage, speed in rows.tolist():
        assert profile.speed(cpus, memory, storage, "other") == pytest.approx(speed)


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
    steps = demand_ladder(6, 250, 125, (3, 62.5, 62.5)).tolist()
    assert steps == [[3, 62.5, 62.5, 0.25], [3, 125, 62.5, 0.5], [6, 250, 125, 1]]
