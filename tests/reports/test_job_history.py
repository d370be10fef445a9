"""Why a job waited, against a run worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.results.builder import HOUR, build, job, span, three_jobs

from gpuyard.core.errors import InputError
from gpuyard.reports.job_history import job_history


def test_the_sentence_says_how_long_and_why() -> None:
    assert job_history(three_jobs(), "3").sentence == (
        "Job 3 waited 1.5 h of its 2.5 h: 1.4 h because all 2 GPUs were taken by jobs ahead of it, "
        "6 min for the next scheduling round. It held 2 GPUs for 1.0 h."
    )


def test_slow_spans_and_preemptions_are_told() -> None:
    history = job_history(three_jobs(), "2")
    assert history.slow_s == pytest.approx(HOUR)
    assert history.short_of_cpus_s == pytest.approx(HOUR)
    assert history.mean_speed == pytest.approx(0.75)
    assert "1.0 h of it below its full speed of 1 and was preempted 1 time." in history.sentence


def test_a_job_held_at_one_speed_says_when_it_wants_more_cpus() -> None:
    history = job_history(build([job(1, cpu_demand=12.0)], [span(1, 0, 1, [0])]), "1")
    assert history.sentence.endswith("for 1.0 h, 1.0 h of it with fewer CPUs than its demand of 12.")
    assert history.advice[0].startswith("1.0 h with fewer CPUs than its demand of 12")


def test_a_job_that_was_slow_all_the_time_was_slow() -> None:
    history = job_history(build([job(1)], [span(1, 0, 1, [0], speed=0.5)]), "1")
    assert history.slow_s == pytest.approx(HOUR)
    assert "1.0 h of it below its full speed of 1." in history.sentence


def test_waits_by_reason_have_hours_and_shares() -> None:
    waits = {wait["reason"]: wait for wait in job_history(three_jobs(), "2").waits}
    assert waits["GPUs taken by jobs ahead"]["hours"] == pytest.approx(1.0)
    assert waits["free GPUs too scattered"]["share"] == pytest.approx(0.25)
    assert len(waits) == 2


def test_events_alternate_between_waiting_and_running() -> None:
    events = job_history(three_jobs(), "2").events
    assert [(event["what"], event["from_h"], event["to_h"]) for event in events] == [
        ("waiting", 0.0, 1.0),
        ("running", 1.0, 2.0),
        ("waiting", 2.0, 3.0),
        ("running", 3.0, 4.0),
    ]
    assert (events[1]["ended"], events[1]["gpu_ids"], events[1]["nodes"]) == ("preempted", [0, 1], [0])
    assert (events[3]["speed"], events[3]["cpus"]) == (0.5, 2.0)


def test_nodes_follow_from_gpus_on_unequal_nodes() -> None:
    run = build([job(1, gpus=3.0)], [span(1, 0, 1, [1, 2, 6])], cluster="1x2+2x4")
    assert job_history(run, "1").events[0]["nodes"] == [0, 1, 2]


def test_a_job_that_never_waited() -> None:
    assert job_history(three_jobs(), "1").sentence == "Job 1 never waited in its 1.0 h. It held 1 GPU for 1.0 h."
    assert job_history(three_jobs(), "1").advice == ["nothing: it hardly waited and ran at full speed"]


def test_a_job_that_never_started() -> None:
    idle = job(5, finish_s=None, start_s=None, held_s=0.0, wait_quota_s=4 * HOUR)
    history = job_history(build([job(1), idle], [span(1, 0, 1, [0])], end_s=4 * HOUR), "5")
    assert history.sentence == (
        "Job 5 waited 4.0 h of the 4.0 h since it arrived: 4.0 h because its tenant's quota was used up. "
        "It never started."
    )
    assert history.advice == ["4.0 h of waiting: a larger quota for its tenant"]


def test_a_job_still_running_has_not_finished() -> None:
    run = build([job(1, finish_s=None)], [span(1, 0, 1, [0], ended="running")])
    assert job_history(run, "1").sentence.endswith("It has not finished.")


def test_advice_starts_with_the_longest_wait() -> None:
    advice = job_history(three_jobs(), "3").advice
    assert advice[0].startswith("1.4 h of waiting: more GPUs")
    assert advice[1].startswith("6 min of waiting: shorter rounds")


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("4", "Ids run from 1 to 3; nearest: 2 and 3"),
        ("0", "nearest: 1 and 2"),
        ("-7", "nearest: 1 and 2"),
        ("x", "Ids run from 1 to 3"),
    ],
)
def test_an_unknown_number_names_the_nearest(tmp_path: Path, wanted: str, hint: str) -> None:
    with pytest.raises(InputError, match=f"'{wanted}' is not a job of this run. .*{hint}"):
        job_history(three_jobs().save(tmp_path / "a"), wanted)


def test_an_unknown_name_names_the_nearest() -> None:
    run = build([job("train-alpha"), job("eval")], [span("eval", 0, 1, [0])])
    with pytest.raises(InputError, match="Did you mean 'train-alpha'"):
        job_history(run, "train-alfa")
    with pytest.raises(InputError, match="Ids look like 'eval' or 'train-alpha'"):
        job_history(run, "zzzzzz")
