"""A request and its rows: which bytes each of them brings, and how long they took together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gpuyard.serving.applications import ASKED, Row
from gpuyard.serving.protocol.contract import Contract
from gpuyard.serving.protocol.inference import InferAnswer, InferRequest, Timing
from gpuyard.serving.protocol.tensors import Tensor, TensorSpec
from gpuyard.serving.tickets import Ticket

SMALL, WIDE = TensorSpec("small", "UINT8", (1,)), TensorSpec("wide", "UINT8", (2,))
PAIR = Contract("pair", "test", (SMALL, WIDE), (SMALL, WIDE), 4, {})


def ticket() -> Ticket:
    """Three rows; the inputs come in another order than the model has them."""
    inputs = (Tensor("wide", "UINT8", (3, 2), b"ABCDEF"), Tensor("small", "UINT8", (3, 1), b"xyz"))
    return Ticket(InferRequest("pair", 3, inputs), PAIR, 0, 0.0, 0, lambda _: None, left=3)


def test_a_row_has_the_bytes_of_each_input_in_the_order_of_the_model() -> None:
    assert [ticket().inputs_of(row) for row in range(3)] == [[b"x", b"AB"], [b"y", b"CD"], [b"z", b"EF"]]


def test_a_request_takes_as_long_as_the_row_that_took_longest() -> None:
    asked = ticket()
    # The third row waited longest and ended first; of the others, which ran together elsewhere, one took longest.
    rows = [(2, 0.03, 0.015), (0, 0.01, 0.02), (1, 0.01, 0.018)]
    assert [asked.finish_row(row, None, queue_s, compute_s) for row, queue_s, compute_s in rows] == [False, False, True]
    assert asked.answer().timing == Timing(queue_s=0.03, compute_s=0.02)


def test_rows_that_end_in_any_order_come_back_in_theirs() -> None:
    asked = ticket()
    for row in (2, 0, 1):
        asked.finish_row(row, [b"%d" % row, b"%d!" % row], 0.0, 0.0)
    small, wide = Tensor("small", "UINT8", (3, 1), b"012"), Tensor("wide", "UINT8", (3, 2), b"0!1!2!")
    assert asked.answer() == InferAnswer((small, wide), Timing(0.0, 0.0))


def test_time_in_batches_goes_on_through_a_stage_that_is_not_asked() -> None:
    """Of three stages in a row, the second has its turn with every other request only."""
    of: Any = SimpleNamespace(order=SimpleNamespace(behind=[[1], [2], []]))
    nothing: Any = None
    row = Row(of, nothing, 0, [ASKED, 1, 1], [0, 0, 1], [[], [], []], [0.0] * 3, [0.1, 0.0, 0.0], 3)
    row.answered(0)
    row.answered(1)
    assert (row.before_s, row.waits_for, row.stages_left) == ([0.0, 0.1, 0.1], [ASKED, 0, 0], 1)
