"""The timelines of an emulated GPU's slices, by hand."""

import pytest

from gpuyard.serving.frames import Ended, StartBatch
from gpuyard.serving.gpu.emulated import EmulatedGpu
from gpuyard.serving.gpu.executor import SlicePlan


def slice_plan(number: int, pressure: float) -> SlicePlan:
    """One turn, whose batch of one takes a second alone, all of it slowed by neighbours."""
    tables = {name: [[0.0, value]] for name, value in
              {"alone_s": 1.0, "raw_s": 1.0, "own": 1.0, "pressure": pressure}.items()}  # fmt: skip
    return SlicePlan(number, 30, ("x",), (number,), tables, 0.0)


def test_only_the_neighbour_that_presses_most_slows_a_batch_down() -> None:
    gpu = EmulatedGpu()
    gpu.prepare(0, [slice_plan(0, 0.0), slice_plan(1, 0.25), slice_plan(2, 0.5)], 0.0)
    for number in (1, 2):
        gpu.run(StartBatch(0, number, number, 1, None, []), 0.0)
    gpu.run(StartBatch(0, 10, 0, 1, None, []), 0.0)
    ended = {each.number: each.ended_s for each in gpu.finished(9.0) if isinstance(each, Ended)}
    # 2 is 1.25 times as slow beside 1, both others 1.5 times beside 2: when it ends, 1/6 of each is left. Then 10 is
    # 1.25 times as slow beside 1, which nobody slows down any more; and alone for the 1/30 that is left when 1 ends.
    assert ended == pytest.approx({2: 1.25, 1: 1.25 + 1 / 6, 10: 1.25 + 1 / 6 + 1 / 30})
