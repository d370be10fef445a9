"""What is refused before a run, and what is left out on request."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuyard
from gpuyard import Cluster, InputError, Job, Options, Workload
from gpuyard.profiles import load_zoo
from gpuyard.simulation.failures import NodeEvent, node_events
from gpuyard.simulation.limits import check_rounds
from gpuyard.simulation.options import Failure
from gpuyard.simulation.study import Study, prepare

JOBS = Workload.from_jobs(
    [
        Job("small", 0.0, 1, "res18", duration_s=3600, tenant="red"),
        Job("wide", 10.0, 64, "res18", duration_s=3600, tenant="red"),
        Job("large", 20.0, 8, "res18", duration_s=3600, tenant="blue"),
        Job("typed", 30.0, 1, "res18", duration_s=3600, tenant="blue", gpu_types="T4"),
    ]
)


def study(options: Options, workload: Workload = JOBS, cluster: str = "2x8") -> Study:
    return prepare(options, cluster=Cluster.parse(cluster), workload=workload)


def test_jobs_that_can_never_run_are_left_out_and_named() -> None:
    part = study(Options(skip_infeasible=True)).workload
    assert part.job_id.tolist() == ["small", "large"]
    assert part.notes == ("2 of 4 jobs left out: the cluster or a quota has too few GPUs for wide, typed",)
    run = gpuyard.simulate("2x8", JOBS, options=Options(skip_infeasible=True))
    assert run.info["workload"]["notes"] == list(part.notes)
    assert run.summary["unfinished"] == 0
    with pytest.raises(InputError, match=r"64 GPUs for job wide are more than the 16 that the cluster has.*skip-inf"):
        gpuyard.simulate("2x8", JOBS)


def test_a_note_names_a_few_of_many() -> None:
    wide = [Job(number, 0.0, 64, "res18", duration_s=60) for number in range(9)]
    jobs = Workload.from_jobs([*wide, Job(9, 0.0, 1, "res18", duration_s=60)])
    (note,) = study(Options(skip_infeasible=True), jobs).workload.notes
    assert note == "9 of 10 jobs left out: the cluster or a quota has too few GPUs for 0, 1, 2, 3, 4, …"


def test_jobs_still_to_come_are_left_out_too() -> None:
    part = prepare(Options(multi_gpu=True, skip_infeasible=True, cluster="1x2", window=(100, 200))).workload
    assert part.extended(20_000).gpus.max() == 2


def test_a_quota_must_concern_somebody_and_let_every_job_in() -> None:
    with pytest.raises(InputError, match=r"field quota: .bleu. is not a tenant of the workload. Did you mean 'blue'"):
        study(Options(quota={"bleu": 4}))
    with pytest.raises(InputError, match=r"field quota: 4\.0 GPUs for tenant blue are too few for job large, which n"):
        study(Options(quota={"blue": 4}))
    assert study(Options(quota={"blue": 4}, skip_infeasible=True)).workload.job_id.tolist() == ["small"]
    assert study(Options(quota={"blue": 8, "red": 64})).options.quota == {"blue": 8, "red": 64}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (Options(cluster="125000000x8"), "125000000 nodes are more than gpuyard simulates: 1000000 at most"),
        (Options(cluster="1x1000000000"), "1000000000 GPUs are more than gpuyard simulates: 10000000 at most"),
        (Options(cluster="999999999999999999x1"), "999999999999999999 nodes are more than gpuyard simulates"),
        (Options(round_s=0.001), "Make rounds longer"),
    ],
)
def test_absurd_sizes_are_refused_with_the_limit(options: Options, says: str) -> None:
    with pytest.raises(InputError) as refused:
        prepare(options)
    assert says in str(refused.value)


def test_a_job_that_lasts_for_ages_is_named() -> None:
    ages = Workload.from_jobs([Job("old", 0.0, 1, "res18", duration_s=1e18)])
    with pytest.raises(InputError, match="until job old could end"):
        study(Options(), ages)


def test_iterations_last_as_long_as_the_model_says() -> None:
    """10^13 iterations of 11 ms are 3.7 * 10^8 rounds of five minutes: few enough."""
    check_rounds(Workload.from_jobs([Job(0, 0.0, 1, "lstm", iterations=1e13)]), 300.0, load_zoo())


def outages(*failures: Failure) -> list[NodeEvent]:
    return node_events(Cluster.parse("2x8"), Options(failures=failures))


def test_a_job_that_arrives_in_ages_is_named() -> None:
    with pytest.raises(InputError, match="rounds until job 1 could end"):
        gpuyard.simulate(
            "1x8", Workload.from_jobs([Job(0, 0, 1, "res50", duration_s=60), Job(1, 1e15, 1, "res50", duration_s=60)])
        )


def test_outages_of_a_node_that_overlap_or_touch_are_one() -> None:
    assert outages(Failure(0, 0, 10), Failure(0, 5, 20), Failure(0, 25, 5), Failure(1, 5, 1)) == [
        NodeEvent(0, 0, True),
        NodeEvent(5, 1, True),
        NodeEvent(6, 1, False),
        NodeEvent(30, 0, False),
    ]
    assert outages(Failure(0, 5, 1), Failure(0, 0, 10)) == [NodeEvent(0, 0, True), NodeEvent(10, 0, False)]
    assert len(outages(Failure(0, 0, 10), Failure(0, 11, 1))) == 4


@pytest.mark.parametrize("failure", [(0, 5, 0), (0, -1, 5), (-1, 0, 5), (0, float("nan"), 5), (0, 0, float("inf"))])
def test_a_failure_takes_a_finite_time_above_zero(failure: tuple[int, float, float]) -> None:
    with pytest.raises(InputError):
        Failure(*failure)


def test_a_failure_of_no_length_in_a_file_is_named_with_its_row(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("node,at,down\n1,2h,5m\n1,3h,0\n")
    with pytest.raises(InputError, match=r"f\.csv, row 3, field down: 0.0 must be a finite time above 0"):
        Options(failures=str(tmp_path / "f.csv"))  # type: ignore[arg-type]


def test_too_many_failures_to_draw_are_refused() -> None:
    with pytest.raises(InputError, match=r"failure_rate: 1000000000\.0 must be at most 50000 on 2 nodes"):
        node_events(Cluster.parse("2x8"), Options(failure_rate=1e9))


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("priority", 2**62, "must be a whole number from -2147483648 to 2147483647"),
        ("priority", 1.5, "must be a whole number"),
        ("priority", float("nan"), "must be a whole number"),
        ("gpus", 1e300, "1e+300 is beyond 1e+18"),
        ("gpus", "two", "'two' must be a number"),
        ("cpus", 1e300, "1e+300 is beyond 1e+18"),
        ("duration_s", 1e19, "1e+19 is beyond 1e+18"),
        ("arrival_s", "noon", "'noon' must be a number"),
        ("arrival_s", [1, 2], "[1, 2] must be a number"),
    ],
)
def test_a_job_with_a_number_that_is_none_is_named(field: str, value: object, says: str) -> None:
    good = {"job_id": 1, "arrival_s": 0.0, "gpus": 1, "model": "res18", "duration_s": 60.0}
    jobs: list[Any] = [Job(**good), Job(**(good | {"job_id": 2, field: value}))]  # type: ignore[arg-type]
    with pytest.raises(InputError) as refused:
        Workload.from_jobs(jobs)
    assert f"memory, row 2, field {field}: " in str(refused.value)
    assert says in str(refused.value)


def test_a_huge_or_doubled_quota_is_refused() -> None:
    with pytest.raises(InputError, match=r"field quota: .* should be less than or equal to 10000000"):
        Options(quota={"red": 1e300})
    with pytest.raises(InputError, match=r"field quota: .* gives tenant red more than one quota"):
        Options(quota=["red=4", "red=8"])  # type: ignore[arg-type]


def test_of_several_gpu_types_the_message_says_that_a_job_runs_on_one() -> None:
    wide = Workload.from_jobs([Job("wide", 0.0, 12, "res18", duration_s=60)])
    with pytest.raises(InputError, match="12 GPUs for job wide are more than the 8 of one type that the cluster has"):
        gpuyard.simulate(Cluster.parse("1x8:type=V100+1x8:type=K80"), wide)


def test_a_gpu_type_that_nobody_knows_recorded_nothing() -> None:
    with pytest.raises(InputError, match="field recorded_on: 'K8' is neither a GPU type that gpuyard knows nor one of"):
        gpuyard.simulate("2x8", JOBS.take(np.arange(1)), options=Options(recorded_on="K8"))


def test_the_failure_rate_is_that_of_each_node() -> None:
    """100 nodes, each twice a year, for 10 years."""
    events = node_events(Cluster.parse("100x1"), Options(failure_rate=2.0, repair_time_s=1.0))
    assert sum(event.down for event in events) == pytest.approx(2000, rel=0.05)


def test_failures_are_drawn_by_the_seed() -> None:
    options = (Options(failure_rate=2.0, seed=seed) for seed in (1, 1, 2))
    first, again, other = (node_events(Cluster.parse("4x1"), each) for each in options)
    assert first == again
    assert not {event.at_s for event in first} & {event.at_s for event in other}


@pytest.mark.parametrize("faithful", [False, True])
def test_a_job_that_ends_when_it_likes_is_prepared_for_a_real_run_and_not_simulated(
    faithful: bool, tmp_path: Path
) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "gpuyard: workload/1\njobs:\n"
        "- {job_id: known, arrival_s: 0, gpus: 1, model: res18, iterations: 10}\n"
        "- {job_id: own, arrival_s: 0, gpus: 1, model: res18, command: train}\n"
    )
    prepared = prepare(Options(workload=str(file), cluster="1x8", faithful=faithful))
    assert [prepared.workload.job(number).endless for number in range(2)] == [False, True]
    with pytest.raises(InputError, match=r"jobs\.yaml, field duration_s: is missing.* job own ends when.*gpuyard run"):
        prepared.run()


def test_a_command_of_any_length_does_not_hide_a_job_that_is_too_long_for_its_rounds() -> None:
    jobs = [Job("own", 0.0, 1, "res18", command="train"), Job("long", 0.0, 1, "res18", duration_s=1e15)]
    with pytest.raises(InputError, match="until job long could end"):
        check_rounds(Workload.from_jobs(jobs), 1.0, load_zoo())
