"""Slices with periods that are longer than their turns, and GPUs that may stand for each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuyard.core.service import Service
from gpuyard.policies.partition.deployment import Deployment, serving_cluster
from gpuyard.policies.partition.interface import PartitionPlan, Slice, Turn
from gpuyard.policies.partition.moves import with_fewest_moves

ONE = Service("a", "resnet50", 1.0, 100.0)


def whole_gpu(gpu: int, batch: int, takes_s: float, period_s: float) -> Slice:
    return Slice("node0", gpu, 1000, 2.0, (Turn("a", batch, takes_s),), period_s)


@pytest.mark.parametrize(("more_ms", "late"), [(-1.0, []), (1.0, ["ms until an answer"])])
def test_who_just_misses_a_batch_waits_for_a_whole_period_however_short_the_turns_are(
    more_ms: float, late: list[str]
) -> None:
    cluster = serving_cluster("1x2080ti")
    blank = Deployment((ONE,), cluster, PartitionPlan(()))
    takes_ms = blank.latency[cluster.gpu_types[0]].alone_ms("resnet50", 1, 100)
    part = whole_gpu(0, 1, takes_ms / 1000, (ONE.slo_ms - takes_ms + more_ms) / 1000)
    found = replace(blank, plan=PartitionPlan((part,))).violations()
    assert [each.rule for each in found] == late


def test_gpus_that_would_do_as_well_are_not_exchanged() -> None:
    """Neither takes a move; but a batch of 8 that is served by one GPU would be by the other."""
    slices = (whole_gpu(0, 8, 0.02, 0.02), whole_gpu(1, 4, 0.01, 0.01))
    there = Deployment((ONE,), serving_cluster("3x2080ti"), PartitionPlan(slices))
    again = with_fewest_moves(there, there, [("node0", gpu) for gpu in range(3)])
    assert again.plan.slices == slices
