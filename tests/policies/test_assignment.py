"""The solver behind opt: against brute force where that is possible, and what must always hold."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpuyard.core.errors import InputError
from gpuyard.policies.allocate.assignment import choose, published_choice, split
from gpuyard.policies.allocate.rounding import Placed, climb, place
from gpuyard.profiles import ladder, load_zoo

ZOO = load_zoo()
SHARE = (3.0, 62.5, 62.5)
NODE = np.array([24.0, 500.0, 500.0])
LADDERS = {name: ladder(ZOO.profile(name), SHARE) for name in ZOO.default_names}

Floats = NDArray[np.float64]
JOBS = st.lists(st.tuples(st.sampled_from(ZOO.default_names), st.sampled_from([1, 1, 1, 2, 4, 8, 16])), min_size=1)


def best_by_force(tables: list[Floats], gpus: list[int], totals: Floats, weighted: bool) -> float:
    best = -1.0
    for rows in product(*(range(len(table)) for table in tables)):
        need = sum(table[k, :3] * size for table, k, size in zip(tables, rows, gpus, strict=True))
        if np.all(need <= totals):
            values = [
                table[k, 3] * (size if weighted else 1) for table, k, size in zip(tables, rows, gpus, strict=True)
            ]
            best = max(best, sum(values))
    return best


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(ZOO.default_names), st.sampled_from([1, 2, 4])), min_size=1, max_size=5),
    st.floats(0.5, 2.0),
    st.booleans(),
)
def test_choice_is_the_best_there_is(jobs: list[tuple[str, int]], room: float, weighted: bool) -> None:
    tables, gpus = [LADDERS[name] for name, _ in jobs], [size for _, size in jobs]
    totals = np.floor(np.array(SHARE) * sum(gpus) * room)
    best = best_by_force(tables, gpus, totals, weighted)
    rows = choose(tables, np.array(gpus), totals, weighted=weighted)
    if rows is None:
        assert best < 0
        return
    need = sum(table[k, :3] * size for table, k, size in zip(tables, rows, gpus, strict=True))
    assert np.all(need <= totals)
    speeds = [table[k, 3] * (size if weighted else 1) for table, k, size in zip(tables, rows, gpus, strict=True)]
    assert sum(speeds) == pytest.approx(best)


def test_weights_decide_who_gets_the_cpus() -> None:
    single = np.array([[1.0, 0, 0, 1.0], [4.0, 0, 0, 1.6]])
    triple = np.array([[1.0, 0, 0, 1.0], [2.0, 0, 0, 1.5]])
    gpus, totals = np.array([1, 3]), np.array([7.0, 0, 0])  # three CPUs beyond the guarantees: for one of the two
    for weighted, expected in ((False, [1, 0]), (True, [0, 1])):
        rows = choose([single, triple], gpus, totals, weighted=weighted)
        assert rows is not None
        assert rows.tolist() == expected


def test_alike_jobs_first_in_line_gets_more() -> None:
    table = np.array([[1.0, 0, 0, 1.0], [3.0, 0, 0, 2.0]])
    rows = choose([table] * 3, np.ones(3, dtype=np.int64), np.array([7.0, 0, 0]))
    assert rows is not None
    assert rows.tolist() == [1, 1, 0]


def test_guarantees_beyond_the_totals() -> None:
    assert choose([LADDERS["alexnet"]] * 2, np.ones(2, dtype=np.int64), np.array([5.0, 500, 500])) is None


def test_a_solver_that_is_a_hair_too_generous(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen with 512 GPUs: whole to 1e-6, once rounded, was 2 KB/s more storage than there is."""
    solve = scipy.optimize.milp

    def generous(*args: Any, constraints: list[Any], **kwargs: Any) -> Any:
        capacity, *others = constraints
        relaxed = scipy.optimize.LinearConstraint(capacity.A, ub=capacity.ub + 1 / 1024)
        return solve(*args, constraints=[relaxed, *others], **kwargs)

    monkeypatch.setattr(scipy.optimize, "milp", generous)
    table = np.array([[1.0, 0, 0, 1.0], [1.0 + 1 / 1024, 0, 0, 1.1]])
    rows = choose([table, table], np.ones(2, dtype=np.int64), np.array([2 + 1 / 1024, 1, 1]))
    assert rows is not None
    assert rows.tolist() == [1, 0]


def test_nothing_to_do() -> None:
    none = np.zeros(0, dtype=np.int64)
    rows, fractions = choose([], none, NODE), split(none, np.zeros((0, 3)), np.array([8]), NODE[None])
    assert rows is not None
    assert fractions is not None
    assert (rows.tolist(), fractions.shape) == ([], (1, 0))
    empty = np.zeros((0, 3))
    assert place(fractions, none, empty, empty, node_gpus=np.array([8]), capacity=NODE[None]) == []


def published_by_force(matrices: list[Floats], grids: tuple[Floats, Floats], totals: Floats) -> float:
    """All 45 points of each of these single-GPU jobs, as the original states it."""
    cpus, memory = (axis.ravel() for axis in np.meshgrid(*grids, indexing="ij"))
    best = -1.0
    for points in product(range(len(cpus)), repeat=len(matrices)):
        at = list(points)
        speeds = np.array([matrix.ravel()[point] for matrix, point in zip(matrices, at, strict=True)])
        floor = np.array([matrix[2, 1] for matrix in matrices])
        if cpus[at].sum() <= totals[0] and memory[at].sum() <= totals[1] and np.all(speeds >= floor):
            best = max(best, float(speeds.sum()))
    return best


@pytest.mark.parametrize("names", [("alexnet", "gnmt"), ("m5", "shufflenet"), ("m5", "m5"), ("res50", "alexnet")])
@pytest.mark.parametrize("totals", [(6.0, 125.0), (12.0, 250.0), (20.0, 250.0), (48.0, 1000.0)])
def test_published_choice(names: tuple[str, str], totals: tuple[float, float]) -> None:
    profiles = [ZOO.profile(name) for name in names]
    matrices, grids = [p.throughput for p in profiles], (profiles[0].cpu_grid, profiles[0].memory_grid)
    speeds = published_choice(matrices, grids, np.ones(2, dtype=np.int64), np.array(totals), (3, 62.5))
    assert speeds is not None
    assert speeds.sum() == pytest.approx(published_by_force(matrices, grids, np.array(totals)))


def test_published_choice_needs_a_share_on_the_grid() -> None:
    alexnet = ZOO.profile("alexnet")
    grids = (alexnet.cpu_grid, alexnet.memory_grid)
    with pytest.raises(InputError, match="needs a measured point"):
        published_choice([alexnet.throughput], grids, np.array([1]), np.array([24.0, 500.0]), (3.5, 62.5))


def fitting(jobs: list[tuple[str, int]], nodes: int) -> tuple[list[Floats], NDArray[np.int64]]:
    """Keep the jobs that fit the cluster's GPUs, each with the rows that one node could give it."""
    tables, gpus, left = [], [], nodes * 8
    for name, size in jobs:
        if size <= left:
            table = LADDERS[name]
            tables.append(table if size > 8 else table[np.all(table[:, :3] * size <= NODE, axis=1)])
            gpus.append(size)
            left -= size
    return tables, np.array(gpus, dtype=np.int64)


def used(placed: list[Placed], amounts: Floats, nodes: int) -> Floats:
    """Return GPUs, CPUs, memory and storage taken on each node."""
    taken = np.zeros((nodes, 4))
    for (parts, _), row in zip(placed, amounts, strict=True):
        for node, part in parts:
            taken[node] += np.array([1.0, *row]) * part
    return taken


@settings(max_examples=150)
@given(JOBS, st.integers(1, 5), st.booleans())
def test_placements(jobs: list[tuple[str, int]], nodes: int, solver: bool) -> None:
    tables, gpus = fitting(jobs, nodes)
    assume(tables)
    node_gpus, capacity = np.full(nodes, 8), np.tile(NODE, (nodes, 1))
    rows = choose(tables, gpus, capacity.sum(axis=0))
    assert rows is not None
    amounts, guarantee = _amounts(tables, rows), _amounts(tables, np.zeros_like(rows))
    fractions = split(gpus, amounts, node_gpus, capacity)
    assert fractions is not None
    assert fractions.sum(axis=0) == pytest.approx(np.ones(len(gpus)))
    assert np.all(np.einsum("nj,j,jr->nr", fractions, gpus, amounts) <= capacity + 1e-5)
    if not solver:  # whatever the fractions are, the placement must be sound
        fractions = np.full_like(fractions, 1.0 / nodes)

    placed = place(fractions, gpus, amounts, guarantee, node_gpus=node_gpus, capacity=capacity)
    assert [sum(part for _, part in job.nodes) for job in placed] == gpus.tolist()
    final = climb(placed, rows, tables, gpus, capacity)
    for after in (np.where([[p.chosen] for p in placed], amounts, guarantee), _amounts(tables, final)):
        taken = used(placed, after, nodes)
        assert np.all(taken[:, 0] <= node_gpus)
        assert np.all(taken[:, 1:] <= capacity)
    assert all(final[j] >= (rows[j] if placed[j].chosen else 0) for j in range(len(gpus)))


def _amounts(tables: list[Floats], rows: NDArray[np.int64]) -> Floats:
    return np.array([table[k, :3] for table, k in zip(tables, rows, strict=True)])


def test_whole_jobs_stay_where_the_programme_put_them() -> None:
    fractions = np.array([[0.0, 1.0], [1.0, 0.0]])
    amounts = np.array([[6.0, 62.5, 62.5], [3.0, 62.5, 62.5]])
    placed = place(
        fractions, np.array([2, 4]), amounts, amounts, node_gpus=np.array([8, 8]), capacity=np.tile(NODE, (2, 1))
    )
    assert placed == [Placed([(1, 2)], True), Placed([(0, 4)], True)]


def test_neighbours_give_back_what_is_beyond_their_guarantee() -> None:
    gpus = np.array([7, 1])
    amounts, guarantee = np.array([[24 / 7 - 0.25, 60, 60], [3, 60, 60]]), np.array([[2, 60, 60], [3.0, 60, 60]])
    placed = place(np.ones((1, 2)), gpus, amounts, guarantee, node_gpus=np.array([8]), capacity=NODE[None])
    assert placed == [Placed([(0, 7)], False), Placed([(0, 1)], False)]


def test_a_job_larger_than_a_node_spans_as_few_as_possible() -> None:
    gpus, amounts = np.array([4, 16]), np.array([[3.0, 62.5, 62.5]] * 2)
    capacity = np.tile(NODE, (4, 1))
    fractions = np.array([[1.0, 0.25]] + [[0.0, 0.25]] * 3)
    placed = place(fractions, gpus, amounts, amounts, node_gpus=np.full(4, 8), capacity=capacity)
    assert [len(job.nodes) for job in placed] == [1, 2]


def test_a_spread_job_ends_on_the_tightest_node() -> None:
    amounts, node_gpus = np.array([[1.0, 1.0, 1.0]]), np.array([8, 8, 3, 2])
    capacity = np.tile(NODE, (4, 1))
    placed = place(np.full((4, 1), 0.25), np.array([10]), amounts, amounts, node_gpus=node_gpus, capacity=capacity)
    assert placed[0].nodes == [(0, 8), (3, 2)]


def test_too_few_gpus_leaves_a_job_out() -> None:
    amounts = np.array([[1.0, 1.0, 1.0]] * 2)
    placed = place(np.ones((1, 2)), np.array([8, 1]), amounts, amounts, node_gpus=np.array([8]), capacity=NODE[None])
    assert placed == [Placed([(0, 8)], True), Placed([], False)]


def test_no_split_when_the_amounts_exceed_the_nodes() -> None:
    assert split(np.array([1]), np.array([[25.0, 1.0, 1.0]]), np.array([8]), NODE[None]) is None


def test_a_full_round_gives_nearly_what_would_be_ideal() -> None:
    """100 single-GPU jobs on 16 nodes."""
    names = [ZOO.default_names[j % 10] for j in range(100)]
    tables, gpus = fitting([(name, 1) for name in names], 16)
    node_gpus, capacity = np.full(16, 8), np.tile(NODE, (16, 1))
    rows = choose(tables, gpus, capacity.sum(axis=0))
    assert rows is not None
    amounts, guarantee = _amounts(tables, rows), _amounts(tables, np.zeros(100, dtype=np.int64))
    fractions = split(gpus, amounts, node_gpus, capacity)
    assert fractions is not None
    placed = place(fractions, gpus, amounts, guarantee, node_gpus=node_gpus, capacity=capacity)
    final = climb(placed, rows, tables, gpus, capacity)

    ideal = sum(table[k, 3] for table, k in zip(tables, rows, strict=True))
    assert sum(table[k, 3] for table, k in zip(tables, final, strict=True)) > 0.95 * ideal


def test_what_is_left_goes_to_the_climb_that_gains_most_on_all_gpus_together() -> None:
    """3 CPUs are left: 0.6 on one GPU, or 0.5 on each of three."""
    single, triple = np.array([[1.0, 0, 0, 1.0], [4.0, 0, 0, 1.6]]), np.array([[1.0, 0, 0, 1.0], [2.0, 0, 0, 1.5]])
    placed = [Placed([(0, 1)], False), Placed([(0, 3)], False)]
    rows = climb(placed, np.array([0, 0]), [single, triple], np.array([1, 3]), np.array([[7.0, 0, 0]]))
    assert rows.tolist() == [0, 1]


def test_of_neighbours_the_one_with_most_beyond_its_guarantee_gives_it_back() -> None:
    """12 CPUs: the pair holds 8 (6 beyond its guarantee), the single 3 (2 beyond); the last wants 3 and finds 1."""
    amounts = np.array([[4.0, 1, 1], [3.0, 1, 1], [3.0, 1, 1]])
    guarantee = np.array([[1.0, 1, 1], [1.0, 1, 1], [3.0, 1, 1]])
    placed = place(
        np.array([[1.0, 1.0, 0.0]]), np.array([2, 1, 1]), amounts, guarantee,
        node_gpus=np.array([4]), capacity=np.array([[12.0, 9.0, 9.0]]),
    )  # fmt: skip
    assert placed == [Placed([(0, 2)], False), Placed([(0, 1)], True), Placed([(0, 1)], False)]
