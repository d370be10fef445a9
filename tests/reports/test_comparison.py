"""Runs side by side, against values worked out by hand."""

from __future__ import annotations

import pytest
from tests.results.builder import HOUR, build, job, span, three_jobs

from gpuyard.reports.comparison import compare_jobs, compare_runs, mismatches, side_by_side
from gpuyard.reports.findings import headline, short_names
from gpuyard.reports.kinds import run_labels
from gpuyard.reports.pairing import same_jobs, unpaired
from gpuyard.results import Run


def without_preemption() -> Run:
    """The same three jobs: job 2 runs through and ends an hour sooner, job 3 starts after it, an hour later."""
    jobs = [
        job(1),
        job(2, gpus=2.0, finish_s=3 * HOUR, start_s=HOUR, held_s=2 * HOUR, wait_fragments_s=HOUR),
        job(3, gpus=2.0, arrival_s=HOUR / 2, finish_s=4 * HOUR, start_s=3 * HOUR, wait_gpus_s=2.5 * HOUR),
    ]
    spans = [span(1, 0, 1, [0]), span(2, 1, 3, [0, 1]), span(3, 3, 4, [0, 1])]
    return build(jobs, spans, policy="fifo+proportional")


def test_ratios_are_against_the_first_run() -> None:
    first, second = compare_runs([three_jobs(), without_preemption()])
    assert first["mean_jct_h_ratio"] == 1.0
    assert second["mean_jct_h"] == pytest.approx((1 + 3 + 3.5) / 3)
    assert second["mean_jct_h_ratio"] == pytest.approx(7.5 / 7.5)
    assert second["p50_jct_h_ratio"] == pytest.approx(3 / 2.5)
    assert second["makespan_h_ratio"] == pytest.approx(1.0)
    assert second["gpu_use_ratio"] == pytest.approx(1.0)


def test_jobs_are_compared_one_by_one() -> None:
    jobs = compare_jobs(three_jobs(), without_preemption())
    assert jobs is not None
    assert (jobs.both, jobs.faster, jobs.slower, jobs.equal) == (3, 1, 1, 1)
    assert jobs.median_ratio == pytest.approx(1.0)


def test_jobs_that_only_one_run_finished_are_left_out() -> None:
    other = build([job(1, finish_s=2 * HOUR), job(9), job(2, finish_s=None)], [span(1, 0, 2, [0])])
    jobs = compare_jobs(three_jobs(), other)
    assert jobs is not None
    assert (jobs.both, jobs.slower, jobs.median_ratio) == (1, 1, 2.0)


def test_number_ids_and_text_ids_are_never_the_same_job() -> None:
    assert compare_jobs(three_jobs(), build([job("1")], [span("1", 0, 1, [0])])) is None


def test_people_get_a_line_a_figure() -> None:
    lines = {line["figure"]: line for line in side_by_side([three_jobs(), without_preemption()])}
    assert lines["p50 JCT, h"]["fifo+tune"] == pytest.approx(2.5)
    assert lines["p50 JCT, h"]["ratio fifo+proportional"] == "1.20x"
    assert lines["of these faster"]["fifo+proportional"] == 1


def test_equal_settings_give_no_warning() -> None:
    assert mismatches([three_jobs(), without_preemption()]) == []


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (three_jobs(cluster="2x2"), "different clusters: 1x2:cpus=8,memory=100; 2x2"),
        (build([job(1), job(2, measured=False), job(3)], [span(1, 0, 1, [0])]), "measure different jobs"),
        (build([job(1), job(2, finish_s=None), job(3)], [span(1, 0, 1, [0])]), "1 measured jobs unfinished"),
    ],
)
def test_unfair_comparisons_are_pointed_out(other: Run, words: str) -> None:
    assert any(words in warning for warning in mismatches([three_jobs(), other])), mismatches([three_jobs(), other])


def digests(digest: str, measured: str) -> dict[str, str]:
    return {"source": "trace.csv", "digest": digest, "measured_digest": measured}


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (digests("a", "m"), True),
        (digests("b", "m"), True),  # one workload goes on for longer than the other
        (digests("a", "n"), True),  # the same jobs, measured in another window
        (digests("b", "n"), False),
        ("three jobs", False),
        (None, False),
    ],
)
def test_jobs_are_the_same_when_all_of_them_or_the_measured_ones_are(other: object, same: bool) -> None:
    assert same_jobs(three_jobs(workload=digests("a", "m")), three_jobs(workload=other)) is same


def test_jobs_of_different_workloads_are_not_paired_but_figures_are() -> None:
    runs = [three_jobs(workload=digests("a", "m")), three_jobs(workload=digests("b", "n"), seed=7)]
    first, second = compare_runs(runs)
    assert second["mean_jct_h_ratio"] == 1.0
    assert (second["jobs_in_both"], second["median_job_ratio"]) == (None, None)
    assert first["jobs_in_both"] == 3
    assert not any("jobs" in line["figure"] for line in side_by_side(runs))


@pytest.mark.parametrize(
    ("jobs", "workload", "words"),
    [
        ([job(1), job(2), job(3)], {"source": "b.csv", "digest": "b"}, "trace.csv and b.csv"),
        ([job(1), job(2)], digests("b", "n"), "3 measured jobs and 2"),
        ([job(1), job(2), job(3, gpus=4.0)], digests("b", "n"), "job 3 has gpus 2.0 and 4.0"),
    ],
)
def test_one_line_says_which_runs_have_other_jobs_and_what_differs(
    jobs: list[dict[str, object]], workload: object, words: str
) -> None:
    given = [job(1), job(2), job(3, gpus=2.0)]
    first = build(given, [span(1, 0, 1, [0])], workload=digests("a", "m"))
    other = build(jobs, [span(1, 0, 1, [0])], workload=workload, policy="las+tune")
    (line,) = unpaired([first, first, other])
    assert line.endswith(f"not compared one by one with those of fifo+tune #1: las+tune ({words})")


def test_other_loads_may_have_other_workloads() -> None:
    slower = build([job(1), job(2), job(3)], [span(1, 0, 1, [0])], load=4.0, workload="other arrivals")
    assert mismatches([three_jobs(), slower]) == []


def test_labels_say_no_more_than_needed() -> None:
    tune, proportional = three_jobs(), without_preemption()
    assert run_labels([tune, proportional]) == ["fifo+tune", "fifo+proportional"]
    assert run_labels([tune, three_jobs(seed=7)]) == ["fifo+tune, seed 42", "fifo+tune, seed 7"]
    assert run_labels([tune, tune]) == ["fifo+tune #1", "fifo+tune #2"]


def test_the_headline_is_the_finding() -> None:
    quick = build([job(1)], [span(1, 0, 1, [0])], policy="fifo+tune")
    slow = build([job(1, finish_s=3.7 * HOUR)], [span(1, 0, 3.7, [0])], policy="fifo+proportional")
    assert headline([slow, quick]) == "tune finishes jobs 3.7x sooner than proportional at 9 jobs/h"
    assert headline([quick, quick]) == "2 runs compared"
    assert headline([quick]) == "fifo+tune finishes a job in 1.0 h on average at 9 jobs/h"


def test_the_headline_compares_runs_of_one_load_only() -> None:
    light = build([job(1)], [span(1, 0, 1, [0])], policy="fifo+tune", load=1.0)
    heavy = build([job(1, finish_s=9 * HOUR)], [span(1, 0, 9, [0])], policy="fifo+proportional", load=9.0)
    assert headline([light, heavy]) == "2 runs compared"


def test_policies_are_named_by_where_they_differ() -> None:
    runs = [build([job(1)], [span(1, 0, 1, [0])], policy=name) for name in ("fifo+tune", "srtf+tune", "las+opt")]
    assert short_names(runs[:2]) == ["fifo", "srtf"]
    assert short_names(runs) == ["fifo+tune", "srtf+tune", "las+opt"]
