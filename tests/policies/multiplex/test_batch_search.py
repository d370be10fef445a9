"""The search for batch sizes: what it may ask for, and how near it comes to the best of surfaces that are known."""

from collections.abc import Callable
from math import exp

import numpy as np
import pytest

from gpuyard.policies.multiplex.batch_grid import BatchRange, BatchSizes, fitting_batches
from gpuyard.policies.multiplex.batch_search import MOST_MEASUREMENTS, BatchSearch
from gpuyard.policies.multiplex.gaussian import GaussianProcess

Surface = Callable[[BatchSizes], float]
Random = np.random.Generator


def test_sizes_are_quarters_of_octaves_around_a_task_s_own() -> None:
    assert BatchRange.around(64).sizes == (32, 38, 45, 54, 64, 76, 91, 108, 128)
    assert BatchRange.around(1).sizes == (1, 2)
    assert BatchRange(8, 8, 8, 0.0, 0.0).sizes == (8,)
    assert BatchRange(100, 90, 150, 0.0, 0.0).sizes == (100, 119, 141)


def test_only_what_fits_into_memory_together_is_a_candidate() -> None:
    ranges = [BatchRange(4, 2, 8, 1.0, 0.5), BatchRange(4, 4, 8, 2.0, 0.25)]
    fitting = fitting_batches(ranges, capacity_gb=7.0)
    assert (8, 4) not in fitting  # 1 + 4 + 2 + 1 = 8
    assert (4, 8) in fitting  # 1 + 2 + 2 + 2 = 7
    assert all(1 + 0.5 * one + 2 + 0.25 * other <= 7.0 for one, other in fitting)


@pytest.mark.parametrize("sizes", [(4, 5, 8), (4, 2, 3), (0, 0, 8)])
def test_ranges_that_contradict_themselves_are_refused(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="1 ≤ smallest ≤ own ≤ largest"):
        BatchRange(*sizes, 0.0, 0.0)


def test_a_process_goes_through_what_was_measured_and_is_unsure_elsewhere() -> None:
    points = np.array([[0.0], [1.0], [3.0]])
    process = GaussianProcess.fit(points, np.array([0.0, 0.5, -0.2]), np.full(3, 0.001))
    mean, deviation = process.predict(np.array([[0.0], [1.0], [3.0], [2.0], [9.0]]))
    assert mean[:3] == pytest.approx([0.0, 0.5, -0.2], abs=0.01)
    assert deviation[:3].max() < 0.01 < deviation[3] < deviation[4]


def test_a_noisy_measurement_is_not_believed_to_the_last_digit() -> None:
    points = np.array([[0.0], [0.01], [1.0], [2.0]])
    process = GaussianProcess.fit(points, np.array([0.5, 0.1, 0.3, 0.3]), np.full(4, 0.2))
    mean, _ = process.predict(np.array([[0.0], [0.01]]))
    assert mean == pytest.approx([0.3, 0.3], abs=0.05)


def convex(random: Random, axes: int, start: BatchSizes) -> Surface:
    """A bowl with its lowest point anywhere within an octave, turned and stretched."""
    lowest, turned = random.uniform(-1, 1, axes), random.normal(size=(axes, axes)) / 4
    bowl = turned @ turned.T + np.eye(axes) * random.uniform(0.05, 0.5)
    return lambda batches: float(
        (np.log2(batches) - np.log2(start) - lowest) @ bowl @ (np.log2(batches) - np.log2(start) - lowest)
    )


def monotone(random: Random, axes: int, start: BatchSizes) -> Surface:
    """A slope, up or down for each task."""
    slope = random.normal(size=axes) / 2
    return lambda batches: float(slope @ (np.log2(batches) - np.log2(start)))


def training(random: Random, axes: int, start: BatchSizes) -> Surface:
    """Tasks with a fixed cost of a step, a noise scale, and neighbours that slow them down by their batch."""
    fixed, scale = random.uniform(0.1, 0.9, axes), 2 ** random.uniform(-3, 3, axes)
    effect, power = random.uniform(0, 0.8, (axes, axes)), random.uniform(0.2, 1.0)

    def loss(batches: BatchSizes) -> float:
        ratio = np.array(batches) / np.array(start)
        slowdown = effect @ ratio**power - np.diag(effect) * ratio**power
        step = (fixed + (1 - fixed) * ratio) * (1 + slowdown)
        return float(np.log(step / ratio * (scale + ratio) / (scale + 1)).mean())

    return loss


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("make", [convex, monotone, training])
def test_it_comes_within_five_percent_of_the_best(
    make: Callable[[Random, int, BatchSizes], Surface], axes: int
) -> None:
    random = np.random.default_rng(17)
    for _ in range(20):
        ranges = [BatchRange.around(int(2 ** random.integers(3, 11))) for _ in range(axes)]
        start = tuple(each.own for each in ranges)
        candidates, surface = fitting_batches(ranges, 1.0), make(random, axes, start)
        search = BatchSearch(candidates, start)
        while (sizes := search.ask()) is not None:
            assert sizes in candidates
            search.tell(sizes, surface(sizes) + 0.01 * random.normal(), 0.01)
        assert search.measurements <= MOST_MEASUREMENTS
        assert search.best is not None
        assert exp(surface(search.best) - min(map(surface, candidates))) <= 1.05


@pytest.mark.parametrize(("slope", "expected"), [(-1.0, 128), (1.0, 32)])
def test_the_answer_moves_the_right_way(slope: float, expected: int) -> None:
    search = BatchSearch(fitting_batches([BatchRange.around(64)], 1.0), (64,))
    while (sizes := search.ask()) is not None:
        search.tell(sizes, slope * float(np.log2(sizes[0])), 0.001)
    assert search.best == (expected,)


def test_where_nothing_matters_it_soon_ends() -> None:
    search = BatchSearch(fitting_batches([BatchRange.around(64)] * 2, 1.0), (64, 64))
    while (sizes := search.ask()) is not None:
        search.tell(sizes, 0.3, 0.0)
    assert search.measurements <= 10


def test_the_tasks_own_sizes_are_measured_first_and_no_first_point_twice() -> None:
    search = BatchSearch(fitting_batches([BatchRange.around(64)] * 2, 1.0), (64, 64))
    asked = []
    for _ in range(5):
        sizes = search.ask()
        assert sizes is not None
        asked.append(sizes)
        search.tell(sizes, 0.0, 0.01)
    assert asked[0] == (64, 64)
    assert len(set(asked)) == 5


def test_what_was_refused_is_never_asked_for_again_nor_anything_larger() -> None:
    search = BatchSearch(fitting_batches([BatchRange.around(64)] * 2, 1.0), (64, 64))
    search.refuse(0, 76)
    while (sizes := search.ask()) is not None:
        assert sizes[0] < 76
        search.tell(sizes, -sum(np.log2(sizes)), 0.001)
    assert search.best == (64, 128)


def test_where_everything_is_refused_there_is_nothing_to_say() -> None:
    search = BatchSearch([(8,), (16,)], (8,))
    search.refuse(0, 8)
    assert search.ask() is None
    assert search.best is None


def test_it_cannot_begin_where_nobody_may_be() -> None:
    with pytest.raises(ValueError, match="no candidate"):
        BatchSearch([(8,)], (16,))


def test_repeated_measurements_are_joined() -> None:
    search = BatchSearch([(8,), (16,)], (8,))
    for value in (1.0, 3.0):
        search.tell((8,), value, 0.5)
    search.tell((16,), 1.9, 0.0)
    assert search.measurements == 3
    assert search.best == (16,)  # 1.9 beside a mean of 2: one lucky sample of 1 does not decide
