"""The compiled simulator does what the plain one does, on random small experiments."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.device.builders import job, rows, run
from tests.simulation.device.reference import Reference

from gpuyard.core.sharing import KernelSequence, SharedJob
from gpuyard.policies.registry import LAUNCHINGS
from gpuyard.policies.timeshare import time_sharing

TICK = 2.0**-12
"""Times are multiples of a power of two, so that sums are exact and what is simultaneous is so in either simulator."""


def ticks(least: int, most: int) -> st.SearchStrategy[float]:
    return st.integers(least, most).map(lambda number: number * TICK)


@st.composite
def jobs(draw: st.DrawFn) -> list[SharedJob]:
    """Up to three processes of few kernels."""
    found = []
    for number in range(draw(st.integers(1, 3))):
        durations = tuple(draw(st.lists(ticks(1, 12), min_size=1, max_size=8)))
        ends = tuple(sorted(draw(st.sets(st.integers(1, len(durations))))))
        arrivals = draw(st.none() | st.lists(ticks(0, 80), max_size=4).map(lambda times: tuple(sorted(times))))
        found.append(
            job(
                str(number), sequence=KernelSequence(durations, ends), priority=draw(st.integers(0, 3)),
                thinks_s=tuple(draw(st.lists(ticks(0, 20), min_size=1, max_size=3))), arrivals_s=arrivals,
                share=draw(st.sampled_from([0.125, 0.25])), slo_s=draw(st.none() | ticks(1, 60)),
                gated=draw(st.booleans()), sync_every=draw(st.integers(0, 4)), window=draw(st.integers(0, 3)),
                layers=draw(st.booleans()), streams=draw(st.integers(1, 3)), launch_s=draw(ticks(0, 2)),
                sync_s=draw(ticks(0, 2)), least_jobs=draw(st.integers(0, 2)),
            )
        )  # fmt: skip
    return found


POLICIES = [
    *("none", "priority", "priority:sync=2", "priority:window=2", "priority:sync=3,window=1", "priority:sync=auto"),
    *("reef", "shepherd", "pipeswitch", "least-slack:sync=2,look=3.90625ms", "shares:look=1.953125ms,over=15.625ms"),
]
DEVICES = ["fifo", "priority:switch=0ms", "partition"]


@settings(max_examples=300, deadline=None)
@given(jobs(), st.sampled_from(POLICIES), st.sampled_from(DEVICES))
def test_the_same_jobs_end_at_the_same_times(jobs: list[SharedJob], policy: str, device: str) -> None:
    reference = Reference(jobs, time_sharing(device), LAUNCHINGS.find(policy), 60 * TICK)
    expected = reference.run()
    gpu = run(jobs, policy, sharing=device, seconds=60 * TICK)
    found = rows(gpu.done())
    assert len(found) == len(expected)
    for one, other in zip(sorted(found, key=_place), sorted(expected, key=_place), strict=True):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-12)
    assert gpu.used_s().tolist() == pytest.approx(reference.used())


def _place(row: dict[str, Any]) -> tuple[int, float, float]:
    return row["process"], row["arrived_s"], row["finished_s"]


@settings(max_examples=100, deadline=None)
@given(jobs(), st.sampled_from([each for each in POLICIES if "sync=2" in each or each in ("reef", "priority")]))
def test_no_launch_passes_the_gate_while_a_higher_level_is_active(jobs: list[SharedJob], policy: str) -> None:
    """No inversion: whoever takes part and passes the gate has the highest level that is active, or the same."""
    reference = Reference(jobs, time_sharing("fifo"), LAUNCHINGS.find(policy), 60 * TICK)
    reference.run()
    if LAUNCHINGS.find(policy).look_s < 1:
        return  # levels of then are not those of the end
    for _, process, highest in reference.passed:
        assert reference.processes[process].level in range(highest, 64) or reference.processes[process].level == -1
