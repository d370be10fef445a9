"""Collectives between processes on emulated GPUs: exact where values are known, and as long as the formulas say."""

from typing import Any

import pytest

from gpuyard.emulation.collectives import gpu_link, seconds
from gpuyard.profiles.gpus import find_gpu

from .conftest import Results

NBYTES = 32 << 20
LINK = gpu_link(find_gpu("V100"))


def test_nccl_is_there(timed: Results) -> None:
    assert [rank["backend"] for rank in timed] == [["nccl", True, "cuda:nccl"]] * 2


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("all_reduce SUM", [[3, 2]] * 2),
        ("all_reduce AVG", [[1.5, 1]] * 2),
        ("all_reduce PRODUCT", [[2, 0]] * 2),
        ("all_reduce MIN", [[1, 0]] * 2),
        ("all_reduce MAX", [[2, 2]] * 2),
        ("flag", [True] * 2),
        ("counter", [[2**41 + 1, True]] * 2),
        ("broadcast", [[10]] * 2),
        ("reduce", [[5], [11]]),
        ("all_gather", [[[0, 0], [1, 1, 1]]] * 2),
        ("all_gather_single", [[0, 5, 1, 6]] * 2),
        ("reduce_scatter_single", [[0, 3], [6, 9]]),
        ("reduce_scatter", [[1, 2], [1, 4]]),
        ("gather", [[[5], [6]], []]),
        ("scatter", [[7], [8]]),
        ("all_to_all", [[[0], [10]], [[1], [11]]]),
        ("all_to_all_single", [[0, 10, 11], [1, 2, 12]]),
        ("ring", [[1], [0]]),
        ("objects", [[[0, 0], [1, 3_000_000]]] * 2),
        ("told", [[{"from": 0}]] * 2),
        ("handed", [["a"], ["b"]]),
        ("on host", [[2]] * 2),
        ("again", [[1]] * 2),
    ],
)
def test_known_values_are_exchanged_for_real(timed: Results, name: str, expected: list[Any]) -> None:
    assert [rank[name] for rank in timed] == expected


def test_nccl_takes_no_tensors_of_the_host(timed: Results) -> None:
    assert "cpu" in timed[0]["host refused"]


def last_to_arrive(timed: Results, name: str) -> float:
    """What the rank measured that did not have to wait for the other."""
    return min(rank[name] for rank in timed) / 1e3


def test_an_all_reduce_takes_what_the_formula_says(timed: Results) -> None:
    assert last_to_arrive(timed, "all_reduce ms") == pytest.approx(seconds("all_reduce", NBYTES, 2, LINK), rel=1e-3)


def test_a_broadcast_takes_what_the_formula_says(timed: Results) -> None:
    assert last_to_arrive(timed, "broadcast ms") == pytest.approx(seconds("broadcast", NBYTES, 2, LINK), rel=1e-3)


def test_an_exchange_hides_behind_computation(timed: Results) -> None:
    assert last_to_arrive(timed, "overlapped ms") == pytest.approx(0.05, rel=0.02)


def test_issuing_makes_nobody_wait_for_the_exchange(timed: Results) -> None:
    assert [rank["issuing ms"] for rank in timed] == [0, 0]


def test_all_wait_for_a_straggler(timed: Results) -> None:
    punctual, late = (rank["with a straggler ms"] for rank in timed)
    assert late == pytest.approx(1e3 * seconds("all_reduce", NBYTES, 2, LINK), rel=1e-3)
    assert punctual == pytest.approx(400 + late, rel=1e-3)


def test_a_barrier_holds_the_host_until_all_are_there(timed: Results) -> None:
    assert timed[0]["barrier ms"] == pytest.approx(200, rel=0.01)
    assert timed[1]["barrier ms"] < 1
