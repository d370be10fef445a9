"""Slices that run real models, with processes that are none."""

from multiprocessing import Pipe
from types import SimpleNamespace
from typing import Any

from gpuyard.serving.frames import Ended, StartBatch
from gpuyard.serving.gpu.torch_slices import TorchSlices
from gpuyard.serving.gpu.torch_worker import BatchJob, Result


def test_a_slice_that_is_no_longer_in_the_plan_ends_when_its_batch_has() -> None:
    slices = TorchSlices(0, "cpu", {})
    joined: list[float] = []

    def join(timeout: float) -> None:
        joined.append(timeout)

    process: Any = SimpleNamespace(join=join)
    ours, theirs = Pipe()
    with theirs:
        slices._workers[0, 1] = process, ours
        slices._turns[0, 5] = (0, 1), "x"
        slices.run(StartBatch(0, 7, 5, 2, None, [b"in"]), 0.0)
        slices.retire(0)
        assert (joined, theirs.recv()) == ([], BatchJob(7, "x", 2, [b"in"]))
        theirs.send(Result(7, "", 1.0, 2.0, [b"out"]))
        assert slices.finished(2.0) == [Ended(7, 1.0, 2.0, [b"out"])]
        assert (len(joined), ours.closed) == (1, True)
