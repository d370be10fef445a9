"""What collectives cost: the formulas of docs/emulation.md, and what must hold for any of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.emulation.collectives import KINDS, Link, gpu_link, seconds
from gpuyard.profiles.gpus import find_gpu

LINK = Link(bandwidth=10e9, latency_s=1e-5)

operations = st.sampled_from(KINDS)
sizes = st.integers(0, 1 << 34)
groups = st.integers(2, 16)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("all_reduce", 2 * 3 / 4 * 0.1 + 3e-5),
        ("barrier", 2 * 3 / 4 * 0.1 + 3e-5),
        ("all_gather", 3 / 4 * 0.1 + 1.5e-5),
        ("reduce_scatter", 3 / 4 * 0.1 + 1.5e-5),
        ("broadcast", 0.1 + 3e-5),
        ("reduce", 0.1 + 3e-5),
        ("gather", 3 / 4 * 0.1 + 1e-5),
        ("scatter", 3 / 4 * 0.1 + 1e-5),
        ("all_to_all", 3 / 4 * 0.1 + 3e-5),
        ("send", 0.1 + 1e-5),
    ],
)
def test_a_gigabyte_between_four_gpus(operation: str, expected: float) -> None:
    assert seconds(operation, 1e9, 4, LINK) == pytest.approx(expected)


def test_every_operation_has_an_expected_price() -> None:
    (mark,) = test_a_gigabyte_between_four_gpus.pytestmark
    assert {operation for operation, _ in mark.args[1]} == set(KINDS)


@given(operations, sizes)
def test_a_rank_alone_exchanges_nothing(operation: str, nbytes: int) -> None:
    assert seconds(operation, nbytes, 1, LINK) == 0


@given(operations, sizes, sizes, groups)
def test_more_bytes_never_take_less_time(operation: str, fewer: int, more: int, ranks: int) -> None:
    fewer, more = sorted((fewer, more))
    assert seconds(operation, fewer, ranks, LINK) <= seconds(operation, more, ranks, LINK)


@given(operations, sizes, groups)
def test_more_ranks_never_take_less_time(operation: str, nbytes: int, ranks: int) -> None:
    assert seconds(operation, nbytes, ranks, LINK) <= seconds(operation, nbytes, ranks + 1, LINK)


@given(sizes, groups)
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(nbytes: int, ranks: int) -> None:
    halves = seconds("reduce_scatter", nbytes, ranks, LINK) + seconds("all_gather", nbytes, ranks, LINK)
    assert seconds("all_reduce", nbytes, ranks, LINK) == pytest.approx(halves)


def test_gpus_are_linked_as_their_kind_says() -> None:
    kind = find_gpu("A100")
    assert gpu_link(kind) == Link(kind.ring_bandwidth, kind.link_latency_s)
