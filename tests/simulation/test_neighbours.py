"""Jobs that share a GPU slow each other down as their profiles say, from the instant at which they meet or part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import column, examples, finishes, job, spans, workload

from gpuyard.core.cluster import Cluster
from gpuyard.core.workload import Job
from gpuyard.profiles import ModelProfile, Zoo
from gpuyard.profiles.parts import Slowdown
from gpuyard.results import Run
from gpuyard.simulation.engine import simulate_cluster
from gpuyard.simulation.failure_file import Failure
from gpuyard.simulation.options import Options


def model(name: str, *beside: Slowdown) -> ModelProfile:
    """Full speed with next to nothing beside its GPU: an iteration takes one second, and two on half a GPU."""
    return ModelProfile(
        name=name, title=name, iteration_s=1.0, cpu_grid=np.array([0.125]), memory_grid=np.array([1.0]),
        throughput=np.array([[1.0]]), aliases=(f"old-{name}",), slowdown=beside, source="test",
        gpu_speed={"A100": 1.0},
    )  # fmt: skip


MODELS = (
    model("gentle"),
    model("a", Slowdown("b", 2.0), Slowdown("c", 1.25)),
    model("b", Slowdown("old-a", 1.5)),
    model("c", Slowdown("a", 3.0, "A100"), Slowdown("a", 1.2, "V100"), Slowdown("c", 1.6, "A100")),
)
ONE_GPU = Cluster.parse("1x1")


def run(
    jobs: list[Job], cluster: Cluster = ONE_GPU, policy: str = "fifo+tune", models: Sequence[ModelProfile] = MODELS,
    **options: Any,
) -> Run:  # fmt: skip
    zoo = Zoo({each.name: each for each in models}, (), {})
    return simulate_cluster(cluster, workload(*jobs), policy, Options(**options), zoo=zoo)


def half(job_id: int, name: str, iterations: float, **rest: Any) -> Job:
    return job(job_id, name, gpus=0.5, iterations=iterations, **rest)


def test_alone_on_half_a_gpu_nobody_slows_a_job_down() -> None:
    assert finishes(run([half(0, "a", 1000)])) == {0: 2000.0}


def test_both_go_on_alone_from_the_instant_at_which_one_ends_within_a_round() -> None:
    # b: 470 iterations at 0.5 / 1.5, done at 1410. a: 352.5 by then at 0.5 / 2, and the other 647.5 at 0.5.
    done = run([half(0, "a", 1000), half(1, "b", 470)])
    assert finishes(done) == pytest.approx({0: 2705.0, 1: 1410.0})
    assert [(span["speed"], span["end_s"], span["ended"]) for span in spans(done, 0)] == [
        (0.25, pytest.approx(1410.0), "resized"),
        (0.5, pytest.approx(2705.0), "finished"),
    ]


def test_who_comes_later_slows_down_who_is_there() -> None:
    # a: 150 iterations until b comes at 300. b is done at 300 + 470 * 3 = 1710, a then at 502.5; it ends 995 s later.
    done = run([half(0, "a", 1000), half(1, "b", 470, at=200.0)])
    assert finishes(done) == pytest.approx({0: 2705.0, 1: 1710.0})


def test_models_that_nobody_has_measured_do_not_disturb() -> None:
    assert finishes(run([half(0, "a", 1000), half(1, "gentle", 1000)])) == {0: 2000.0, 1: 2000.0}


def test_every_neighbour_counts() -> None:
    # a at 0.2 beside b and c: 0.2 / (2 * 1.25) = 0.08.
    jobs = [job(i, name, gpus=0.2, iterations=1e4) for i, name in enumerate("abc")]
    assert spans(run(jobs), 0)[0]["speed"] == pytest.approx(0.08, rel=1e-4)


@pytest.mark.parametrize(("gpu", "beside_a"), [("V100", 1.2), ("A100", 3.0), ("T4", 3.0)])
def test_what_was_measured_on_this_gpu_type_goes_before_what_was_measured_elsewhere(gpu: str, beside_a: float) -> None:
    c = MODELS[3]
    assert (c.slowdown_beside(MODELS[1], gpu), c.slowdown_beside(c, gpu)) == (beside_a, 1.6)


@pytest.mark.parametrize(("gpu", "factor"), [("A100", 3.0), ("T4", 1.5), ("V100", 1.5)])
def test_what_names_no_gpu_type_goes_before_what_was_measured_elsewhere(gpu: str, factor: float) -> None:
    told = model("told", Slowdown("a", 3.0, "A100"), Slowdown("a", 1.5))
    assert told.slowdown_beside(MODELS[1], gpu) == factor


def test_on_gpus_of_their_own_they_do_not_disturb() -> None:
    jobs = [job(0, "a", iterations=1000), job(1, "b", iterations=1000)]
    assert finishes(run(jobs, Cluster.parse("1x2"))) == {0: 1000.0, 1: 1000.0}


def test_a_neighbour_that_is_stopped_disturbs_no_longer() -> None:
    # From 600 on, c has b's half. a beside c: 0.5 / 1.25. c beside a on a V100: 360 iterations at 0.5 / 1.2.
    jobs = [half(0, "a", 10000, priority=1), half(1, "b", 10000), half(2, "c", 360, at=600.0, priority=1)]
    done = run(jobs)
    assert finishes(done)[2] == pytest.approx(600 + 360 * 2.4)
    assert [(span["start_s"], span["speed"]) for span in spans(done, 0)][:4] == [
        (0.0, 0.25), (600.0, 0.4), (pytest.approx(1464.0), 0.5), (1500.0, 0.25),
    ]  # fmt: skip


def test_a_checkpoint_keeps_what_was_done_at_each_speed() -> None:
    # a: 300 iterations in 1200 s beside b, which ends then; 200 more until the node fails at 1600. The last checkpoint
    # was at 1200. Back at 1800, it has 700 left and needs 1400 s.
    jobs = [half(0, "a", 1000), half(1, "b", 400)]
    done = run(jobs, failures=(Failure(0, 1600.0, 100.0),), checkpoint_every_s=600.0)
    assert finishes(done) == pytest.approx({0: 3200.0, 1: 1200.0})


def test_the_slowdown_is_that_on_the_gpu_type_they_share() -> None:
    # c at 0.5 / 1.2 ends at 2400; by then a has done 960 at 0.4, and does 40 more at 0.5.
    mixed = Cluster.parse("1x1:type=V100+1x1:type=A100")
    done = run([half(0, "a", 1000, types="V100"), half(1, "c", 1000, types="V100")], mixed)
    assert finishes(done) == pytest.approx({0: 2480.0, 1: 2400.0})


def test_a_change_of_speed_while_a_job_starts_up_does_not_shorten_that() -> None:
    # b does 200 by 600, when c takes its half; it starts again at 1500, works from 1600 on, at 0.5 / 1.5.
    jobs = [half(0, "a", 10000, priority=1), half(1, "b", 400), half(2, "c", 360, at=600.0, priority=1)]
    assert finishes(run(jobs, restart_cost_s=100.0))[1] == pytest.approx(2200.0)


@pytest.mark.parametrize("policy", ["fifo+tune", "srtf+tune", "las+proportional"])
def test_jobs_do_not_flee_from_gpu_to_gpu_before_their_neighbours(policy: str) -> None:
    """Both prefer the A100, by a fifth, and lose more by each other there: but whoever moved would be followed."""
    pair = replace(model("pair", Slowdown("pair", 3.0)), gpu_speed={"A100": 1.2})
    mixed = Cluster.parse("1x1:type=A100+1x1:type=V100")
    done = run([half(0, "pair", 2000), half(1, "pair", 2000)], mixed, policy, models=(pair,), migration_cost_s=200.0)
    assert column(done, "moves") == {0: 0, 1: 0}


JOBS = st.lists(
    st.tuples(
        st.integers(0, 4000), st.sampled_from(["a", "b", "c", "gentle"]), st.sampled_from([0.2, 0.25, 0.5, 1.0]),
        st.integers(1, 4000),
    ),
    min_size=1, max_size=12,
).map(sorted)  # fmt: skip


@settings(max_examples=examples(40))
@given(JOBS, st.sampled_from(["fifo+tune", "las+proportional", "srtf+tune"]), st.sampled_from([0.0, 100.0]))
def test_work_adds_up_and_skipped_rounds_change_nothing(
    drawn: list[tuple[int, str, float, int]], policy: str, cost: float
) -> None:
    jobs = [
        job(i, name, gpus=gpus, iterations=iterations, at=float(at))
        for i, (at, name, gpus, iterations) in enumerate(drawn)
    ]
    done, slow = (
        run(jobs, Cluster.parse("1x2"), policy, skip=skip, restart_cost_s=cost, migration_cost_s=cost)
        for skip in (True, False)
    )
    assert column(done, "finish_s") == pytest.approx(column(slow, "finish_s"))
    for number, each in enumerate(jobs):
        mine = spans(done, number)
        worked = sum((span["end_s"] - span["start_s"]) * span["speed"] for span in mine)
        assert each.iterations <= worked * (1 + 1e-9) + 1e-6
        if not cost or not any(span["ended"] in ("preempted", "moved") for span in mine):
            assert worked == pytest.approx(each.iterations)


def test_a_checkpoint_before_a_neighbour_left_is_kept() -> None:
    """a has 250 iterations at its checkpoint at 1000 s. b ends at 1200, the node fails at 1400: a has 750 left then."""
    failures = (Failure(0, 1400.0, 100.0),)
    done = run([half(0, "a", 1000), half(1, "b", 400)], failures=failures, checkpoint_every_s=500.0)
    assert finishes(done) == pytest.approx({0: 3000.0, 1: 1200.0})
