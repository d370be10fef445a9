"""Time, failures, costs and windows: small stories."""

import pytest
from tests.builders import cluster, column, finishes, job, run, spans, starts

from gpuyard.core.errors import InputError, StallError
from gpuyard.simulation.options import Failure, Options

HOUR = 3600.0
NODE = cluster("1x1", "cpus=3,memory=62.5GB")


def test_a_job_finishes_inside_a_round_and_the_next_starts_at_its_boundary() -> None:
    done = run(NODE, [job(0, hours=0.5), job(1, hours=0.9)], "fifo+proportional")
    assert finishes(done) == {0: 1800, 1: 1800 + 0.9 * HOUR}
    done = run(NODE, [job(0, hours=0.99), job(1, hours=1)], "fifo+proportional")
    assert finishes(done) == {0: pytest.approx(0.99 * HOUR), 1: 2 * HOUR}
    assert column(done, "wait_gpus_s")[1] == HOUR


def test_the_original_counts_whole_rounds() -> None:
    done = run(NODE, [job(0, hours=0.99)], "fifo+proportional", Options(faithful=True))
    assert finishes(done) == {0: HOUR}


def test_a_job_waits_for_the_next_round() -> None:
    done = run(NODE, [job(0, at=1, hours=1)], "fifo+proportional")
    assert starts(done) == {0: 300}
    assert column(done, "wait_round_s")[0] == 299
    assert finishes(run(NODE, [job(0, at=300, hours=1)], "fifo+proportional")) == {0: 300 + HOUR}


def test_a_gap_in_the_trace_is_no_end() -> None:
    """The original ends a replay at the first idle round; we go on."""
    jobs = [job(0, hours=1), job(1, at=90000, hours=1)]
    assert finishes(run(NODE, jobs, "fifo+tune")) == {0: HOUR, 1: 90000 + HOUR}
    assert finishes(run(NODE, jobs, "fifo+tune", Options(faithful=True)))[1] is None


def test_static_lets_all_jobs_arrive_at_once() -> None:
    done = run(cluster(), [job(0, at=9000), job(1, at=99)], "fifo+proportional", Options(static=True))
    assert set(starts(done).values()) == {0.0}


def test_the_window_measures_some_and_stops_when_they_are_done() -> None:
    jobs = [job(i, at=i * 600.0, hours=1) for i in range(10)]
    done = run(NODE, jobs, "fifo+proportional", Options(window=(2, 4)))
    assert done.summary["jobs"] == 2
    assert done.jobs["measured"].to_list() == [False, False, True, True] + [False] * 6
    assert done.info["end_s"] == 4 * HOUR
    assert finishes(done)[4] is None
    assert done.summary["mean_jct_h"] == pytest.approx((3 * HOUR - 1200 + 4 * HOUR - 1800) / 2 / HOUR)


def test_a_restart_costs_its_seconds_every_time() -> None:
    jobs = [job(0, hours=2), job(1, at=600, hours=1)]
    free = finishes(run(NODE, jobs, "srtf+proportional"))
    dear = run(NODE, jobs, "srtf+proportional", Options(restart_cost_s=100))
    assert free == {0: 3 * HOUR, 1: 600 + HOUR}
    assert finishes(dear) == {0: 3 * HOUR + 100, 1: 600 + HOUR}
    assert column(dear, "preemptions") == {0: 1, 1: 0}


def test_a_first_start_costs_its_seconds_once() -> None:
    jobs = [job(0, hours=2), job(1, at=600, hours=1)]
    dear = run(NODE, jobs, "srtf+proportional", Options(start_cost_s=50, restart_cost_s=100))
    assert finishes(dear)[1] == 600 + 50 + HOUR
    assert finishes(dear)[0] == 600 + 50 + HOUR + 250 + 100 + 2 * HOUR - 550
    assert column(dear, "preemptions") == {0: 1, 1: 0}
    assert starts(dear) == {0: 0, 1: 600}


def test_checkpoints_slow_a_job_down() -> None:
    done = run(NODE, [job(0, hours=1)], "fifo+proportional", Options(checkpoint_every_s=900, checkpoint_cost_s=90))
    assert finishes(done)[0] == pytest.approx(1.1 * HOUR)


def test_a_failure_sends_a_job_back_to_its_last_checkpoint() -> None:
    """Down at 4000 s for 1000 s: the checkpoint of 3600 s is kept, 400 s are lost, and the next round is at 5100 s."""
    failure = (Failure(0, 4000, 1000),)
    done = run(NODE, [job(0, hours=2)], "fifo+proportional", Options(failures=failure, checkpoint_every_s=1800))
    assert finishes(done)[0] == pytest.approx(5100 + 2 * HOUR - 3600)
    assert column(done, "restarts")[0] == 1
    assert [span["ended"] for span in spans(done, 0)] == ["failed", "finished"]
    assert column(done, "wait_nodes_s")[0] + column(done, "wait_round_s")[0] == 1100


def test_without_a_checkpoint_all_is_lost() -> None:
    failure = (Failure(0, 1700, 1),)
    done = run(NODE, [job(0, hours=1)], "fifo+proportional", Options(failures=failure, checkpoint_every_s=1800))
    assert finishes(done)[0] == pytest.approx(1800 + HOUR)


def test_what_was_done_before_a_preemption_outlasts_a_failure_after_it() -> None:
    """Job 0 works to 300 s, job 1 to 900 s; job 0 pays for its restart and works from 1000 s on to the failure at
    1500 s, without a checkpoint. The next round is at 1800 s, and of its 7200 s the first 300 s are done.
    """
    jobs = [job(0, hours=2), job(1, at=1, hours=1 / 6, priority=1)]
    options = Options(restart_cost_s=100, checkpoint_every_s=HOUR, failures=(Failure(0, 1500, 100),))
    assert finishes(run(NODE, jobs, "fifo+proportional", options)) == {0: 1800 + 100 + 2 * HOUR - 300, 1: 900}


@pytest.mark.parametrize("neighbours_first", [True, False])
def test_a_failure_takes_back_what_was_done_at_the_speed_it_was_done_at(neighbours_first: bool) -> None:
    """Between checkpoint and failure the job's speed changes; it goes back to what it had done at the checkpoint."""
    at = 0.0 if neighbours_first else 2999.0
    hours = 0.6 if neighbours_first else 5.0
    jobs = [job(0, "alexnet", hours=20), *(job(i, "alexnet", at=at, hours=hours) for i in range(1, 8))]
    failure = (Failure(0, 3400, 10),)
    done = run(cluster(), jobs, "fifo+tune", Options(failures=failure, checkpoint_every_s=1800))
    mine = spans(done, 0)
    failed = next(k for k, span in enumerate(mine) if span["ended"] == "failed")
    assert len({span["speed"] for span in mine[: failed + 1]}) > 1
    kept = sum(span["speed"] * max(min(span["end_s"], 1800.0) - span["start_s"], 0.0) for span in mine[: failed + 1])
    after = sum(span["speed"] * (span["end_s"] - span["start_s"]) for span in mine[failed + 1 :])
    assert kept + after == pytest.approx(20 * HOUR)


def test_a_failure_elsewhere_leaves_a_job_alone() -> None:
    done = run(
        cluster("2x1", "cpus=3,memory=62.5GB"), [job(0, hours=2)], "fifo+tune", Options(failures=(Failure(1, 50, 9),))
    )
    assert column(done, "restarts")[0] == 0
    assert finishes(done)[0] == 2 * HOUR


def test_waiting_for_a_node_that_is_down_has_its_own_reason() -> None:
    done = run(NODE, [job(0, at=1, hours=1)], "fifo+tune", Options(failures=(Failure(0, 0, 3000),)))
    assert column(done, "wait_nodes_s")[0] > 2000
    assert starts(done)[0] == 3000


def test_failures_drawn_from_a_seed_repeat_and_differ_between_seeds() -> None:
    jobs = [job(i, at=i * 1000.0, hours=9) for i in range(30)]

    def drawn(seed: int) -> dict[int, float | None]:
        options = Options(failure_rate=2000.0, repair_time_s=1800.0, seed=seed)
        return finishes(run(cluster("2x2"), jobs, "fifo+tune", options))

    assert drawn(1) == drawn(1) != drawn(2)


def test_a_failure_of_a_node_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="nodes 0 to 0"):
        run(NODE, [job(0)], "fifo+tune", Options(failures=(Failure(3, 0, 1),)))


def test_nothing_can_happen_any_more() -> None:
    with pytest.raises(StallError, match="1 jobs still wait, first of them job 3"):
        run(NODE, [job(3, tenant="red")], "fifo+tune", Options(quota={"red": 0}))


def test_an_empty_round_of_the_original_never_ends_when_iterations_outlast_it() -> None:
    """With rounds shorter than an iteration the original credits nothing, ever."""
    with pytest.raises(StallError):
        run(NODE, [job(0, iterations=10)], "fifo+proportional", Options(faithful=True, round_s=0.5))


def test_a_job_of_no_work_finishes_when_it_starts() -> None:
    assert finishes(run(NODE, [job(0, at=10, iterations=0)], "fifo+tune")) == {0: 300}
