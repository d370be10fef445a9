"""A workload on Kubernetes as a run: submitted as it arrives, followed, cancelled, taken up again, and written."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.kube.gang_yard import FOLDER, DirectApi, GangYard

from gpuyard.core.errors import InputError
from gpuyard.core.workload import Job
from gpuyard.kube.jobs.asking import GangTemplate, pod_template
from gpuyard.kube.jobs.gang_telling import news
from gpuyard.kube.jobs.kube_run import KubeRun, WantedGang
from gpuyard.kube.jobs.run_state import KubeRunState, begin_state, end_state, find_state, new_state
from gpuyard.kube.resources.training_job import GangStatus
from gpuyard.profiles import load_zoo
from gpuyard.reports.job_times import job_times
from gpuyard.results import Run
from gpuyard.runtime.records import JobState
from gpuyard.runtime.run_folder import run_of

JOBS = (
    Job("Wide_1", 0.0, 4, "resnet50", iterations=300, command="python train.py"),
    Job("7", 100.0, 4, "resnet50", iterations=60, priority=1, command="python train.py"),
    Job("late", 400.0, 1, "alexnet", iterations=50, command="python train.py"),
)
LOOK_S = 7.0


def yard_of(**how: Any) -> GangYard:
    """One node with four GPUs, beside one without."""
    yard = GangYard(policy="fifo+proportional", **how)
    yard.add_node("n1", 4)
    return yard


def run_in(
    yard: GangYard,
    jobs: Sequence[Job] = JOBS,
    run: str = "r1",
    state: KubeRunState | None = None,
    clock: Callable[[], float] | None = None,
) -> KubeRun:
    """A run of these jobs whose clock is the cluster's."""
    common = GangTemplate(pod_template("trainer", None), None, "lab")
    gangs = common.gangs(jobs, {"gpuyard.io/run": run})
    names = tuple(each["metadata"]["name"] for each in gangs)
    kept = state or KubeRunState(run, "lab", yard.clock.now(), names)
    wanted = [WantedGang(job, thing) for job, thing in zip(jobs, gangs, strict=True)]
    return KubeRun(DirectApi(yard.server), wanted, kept, yard.said.append, clock or yard.clock.now)


def follow(yard: GangYard, run: KubeRun) -> None:
    """Look now and then, as long as anything may happen."""
    run.step()
    if not run.over:
        yard.clock.at(yard.clock.now() + LOOK_S, lambda: follow(yard, run))


def written(run: KubeRun) -> Run:
    return run_of(run.happened(), load_zoo(), policy=run.policy, load=None, timing={}, kind="kubernetes")


def test_jobs_are_submitted_when_they_arrive_and_all_that_happens_to_them_is_in_the_run() -> None:
    yard = yard_of()
    run = run_in(yard)
    run.check(load_zoo())
    follow(yard, run)
    yard.run(until=90.0, all_over=False)
    assert list(yard.phases()) == ["wide-1"]
    yard.run(until=2000.0, all_over=False)
    assert yard.phases() == {"wide-1": "Succeeded", "job-7": "Succeeded", "late": "Succeeded"}
    found = written(run)
    assert found.info["complete"]
    assert (found.info["notes"], found.info["policy"], found.world) == ([], "fifo+proportional", "kubernetes")
    jobs = {row["job_id"]: row for row in found.jobs.iter_rows(named=True)}
    assert set(jobs) == {"Wide_1", "7", "late"}
    assert [jobs[name]["arrival_s"] for name in ("Wide_1", "7", "late")] == [0.0, 100.0, 400.0]
    assert jobs["Wide_1"]["preemptions"] == 1
    assert all(row["arrival_s"] <= row["start_s"] < row["finish_s"] < 1000 for row in jobs.values())
    assert [row["ended"] for row in found["attempts"].iter_rows(named=True) if row["job_id"] == "Wide_1"] == [
        "preempted", "finished"
    ]  # fmt: skip
    spans = found.timeline.to_dicts()
    assert {gpu for row in spans for gpu in row["gpu_ids"]} == {0, 1, 2, 3}
    held = sum(row["end_s"] - row["start_s"] for row in spans if row["job_id"] == "Wide_1")
    assert held == pytest.approx(jobs["Wide_1"]["held_s"])
    times = job_times(found)
    assert times.height == 3
    assert max(map(abs, times["remainder"].to_list())) < 1.0
    assert times.row(by_predicate=pl.col("job_id") == "7", named=True)["hand_over"] > 0


def test_ctrl_c_lets_jobs_save_and_leave_and_submits_no_more() -> None:
    yard = yard_of()
    run = run_in(yard)
    follow(yard, run)
    yard.clock.at(150.0, run.cancel)
    yard.run(until=1000.0, all_over=False)
    assert yard.phases() == {"wide-1": "Cancelled", "job-7": "Cancelled"}
    assert run.over
    assert yard.saved["wide-1"] > 50
    found = written(run)
    assert not found.info["complete"]
    assert found.info["notes"][:3] == [
        "job Wide_1 was cancelled", "job 7 was cancelled", "job late was cancelled: it was not submitted any more"
    ]  # fmt: skip
    assert found.jobs["finish_s"].null_count() == 3


def test_names_that_are_taken_are_refused_before_anything_is_created() -> None:
    yard = yard_of()
    yard.submit("late")
    run = run_in(yard)
    before = len(yard.server.objects)
    with pytest.raises(InputError, match="is there already") as refused:
        run.check(load_zoo())
    assert "late" in str(refused.value)
    assert len(yard.server.objects) == before
    with pytest.raises(InputError, match="no GPUs"):
        run_in(GangYard()).check(load_zoo())
    with pytest.raises(InputError, match="unheard"):
        run_in(yard, [Job("a", 0.0, 1, "unheard", iterations=1, command="true")]).check(load_zoo())
    with pytest.raises(InputError, match="would be called"):
        run_in(yard, [replace(JOBS[0], job_id="a_b"), replace(JOBS[0], job_id="a-b")])


def test_runs_side_by_side_know_their_own_jobs_alone() -> None:
    yard = yard_of()
    yard.submit("stranger", 1, iterations=10)
    one, other = run_in(yard, JOBS[:1], "r1"), run_in(yard, JOBS[2:], "r2")
    for run in (one, other):
        follow(yard, run)
    yard.clock.at(450.0, other.cancel)
    yard.run(until=1000.0, all_over=False)
    assert [each.name for each in one.records()] == ["Wide_1"]
    assert {one.records()[0].state, other.records()[0].state} == {JobState.FINISHED, JobState.CANCELLED}
    assert yard.phases() == {"stranger": "Succeeded", "wide-1": "Succeeded", "late": "Cancelled"}


def test_a_job_that_is_removed_or_whose_name_is_taken_on_the_way_is_told() -> None:
    yard = yard_of()
    run = run_in(yard)
    follow(yard, run)
    yard.clock.at(50.0, lambda: yard.server.remove(f"{FOLDER}/trainingjobs/wide-1"))
    yard.clock.at(60.0, lambda: yard.submit("late", 1, iterations=5))
    yard.run(until=1000.0, all_over=False)
    assert run.over
    assert [each.state for each in run.records()] == [JobState.CANCELLED, JobState.FINISHED, JobState.FAILED]
    notes = written(run).info["notes"]
    assert "job Wide_1 was cancelled: its TrainingJob was removed" in notes
    assert any("could not be submitted" in note for note in notes)
    assert yard.phases()["late"] == "Succeeded", "the other one of that name is nobody's business"


def test_a_job_that_its_controller_refuses_or_gives_up_is_told() -> None:
    yard = yard_of()
    run = run_in(yard, JOBS[2:])
    yard.crashes["late"] = "no such file"
    follow(yard, run)
    yard.run(until=2000.0, all_over=False)
    (note,) = written(run).info["notes"]
    assert "job late was given up after 3 attempts" in note
    assert "no such file" in note


def test_spans_on_nodes_that_are_gone_are_left_out_and_told() -> None:
    yard = yard_of()
    yard.add_node("n2", 4)
    first, again = run_in(yard, JOBS[:1]), run_in(yard, JOBS[:1])

    def begin_again() -> None:
        again.check(load_zoo())
        follow(yard, again)

    yard.clock.at(1.0, first.step)
    yard.clock.at(100.0, lambda: yard.remove_node("n1"))
    yard.clock.at(200.0, begin_again)
    yard.run(until=2000.0, all_over=False)
    found = written(again)
    assert "1 spans on nodes that are gone are left out" in found.info["notes"]
    assert (found.info["cluster"]["gpus"], found.timeline.height, found["attempts"].height) == (4, 1, 2)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_fails_and_however_often_it_is_killed_every_job_is_submitted_once_and_ends(seed: int) -> None:
    chance, yard = random.Random(seed), yard_of()
    runs, looking = [run_in(yard)], [False]
    state = runs[0].state

    def fails(_method: str, _path: str) -> int | None:
        return chance.choice((None, None, None, 503, 0)) if looking[0] else None

    def look() -> None:
        if chance.random() < 0.2:  # kill -9, and the same command again
            runs.append(run_in(yard, state=state))
        looking[0] = True
        runs[-1].step()
        looking[0] = False
        if not runs[-1].over and yard.clock.now() < 1500:
            yard.clock.at(yard.clock.now() + LOOK_S, look)

    yard.server.fails = fails
    look()
    yard.run(until=1600.0, all_over=False)
    last = run_in(yard, state=state)
    last.check(load_zoo())
    last.step()
    assert sum(kind == "ADDED" and "/trainingjobs/" in path for _, kind, path, _ in yard.server.events) == 3
    assert [each.state for each in last.records()] == [JobState.FINISHED] * 3
    assert [each.finish_s for each in runs[-1].records()] == [each.finish_s for each in last.records()]
    assert written(last).info["complete"]


def test_what_is_shown_is_how_far_jobs_are_where_and_why_not() -> None:
    yard = yard_of()
    run = run_in(yard)
    yard.clock.at(1.0, run.step)
    for at in (130.0, 250.0):
        yard.clock.at(at, run.step)
    yard.run(until=251.0, all_over=False)
    view = run.view()
    assert (view.running, view.waiting, view.over, view.total) == (1, 1, 0, 3)
    jobs = {each.job: each for each in view.jobs}
    runs, waits = jobs["7"], jobs["Wide_1"]
    assert (runs.places, runs.done_steps > 0, runs.total_steps) == ("n1/0, n1/1, n1/2, n1/3", True, 60)
    assert waits.reason == "LacksGpus"


def test_it_is_said_once_if_nobody_decides() -> None:
    yard = yard_of()
    now = [0.0]
    run = run_in(yard, JOBS[:1], clock=lambda: now[0])
    for now[0], times in ((0.0, 0), (20.0, 0), (40.0, 1), (80.0, 1)):
        run.step()
        assert sum("nobody has decided" in each for each in yard.said) == times


def test_a_state_is_found_again_and_that_of_other_jobs_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    state = new_state("lab", ("a", "b"))
    assert find_state(folder, "lab", ("a", "b")) is None
    begin_state(folder, state)
    assert find_state(folder, "lab", ("a", "b")) == state
    for namespace, gangs in (("lab", ("a",)), ("other", ("a", "b"))):
        with pytest.raises(InputError, match="of other jobs"):
            find_state(folder, namespace, gangs)
    end_state(folder)
    assert not folder.exists()
    folder.mkdir()
    (folder / "kubernetes.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        find_state(folder, "lab", ("a", "b"))


# Events about gangs

WAITING = GangStatus("Waiting", "LacksGpus", "It lacks GPUs.")
RUNNING = GangStatus("Running", "Trains", places=("n1/0", "n1/1"), attempt=1)


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (GangStatus(), WAITING, ("Waits", "It lacks GPUs.")),
        (WAITING, replace(WAITING, message="It lacks 3 GPUs."), None),  # other words for the same
        (WAITING, replace(WAITING, reason="LacksQuota", message="q"), ("Waits", "q")),
        (GangStatus(), GangStatus("Waiting", "LacksRound", "r"), None),
        (WAITING, replace(RUNNING, phase="Starting"), ("Placed", "It has n1/0, n1/1.")),
        (replace(RUNNING, phase="Starting"), RUNNING, None),
        (RUNNING, replace(RUNNING, phase="Leaving", reason="Preempted", message="p"), ("Preempted", "p")),
        (RUNNING, replace(RUNNING, phase="Leaving", reason="Moves", message="m"), ("Leaving", "m")),
        (RUNNING, replace(RUNNING, phase="Succeeded", step=9), ("Finished", "It is done after 9 steps and 1 attempt.")),
        (RUNNING, GangStatus("Failed", "GivenUp", "f"), ("Failed", "f")),
        (RUNNING, GangStatus("Cancelled", "Cancelled", "c"), ("Cancelled", "c")),
        (GangStatus("Failed", "GivenUp", "f"), GangStatus("Failed", "GivenUp", "f"), None),
    ],
)
def test_each_turn_of_a_gang_is_told_once(before: GangStatus, now: GangStatus, told: tuple[str, str] | None) -> None:
    assert news(before, now) == told


def test_events_about_a_gang_that_is_preempted_are_those_of_its_training_job() -> None:
    yard = yard_of()
    tell = yard.events
    for at in range(0, 800, 15):
        yard.clock.at(float(at), tell.step)
    follow(yard, run_in(yard, [*JOBS, replace(JOBS[2], job_id="wrong", gpus=1, arrival_s=0.0)]))
    yard.crashes["wrong"] = "no such file"
    yard.run(until=800.0, all_over=False)
    found = [thing for path, thing in yard.server.objects.items() if "/events/" in path]
    of = {name: [each["reason"] for each in found if each["involvedObject"]["name"] == name] for name in yard.phases()}
    assert of["wide-1"][:4] == ["Waits", "Placed", "Preempted", "Waits"] or of["wide-1"][:3] == [
        "Placed", "Preempted", "Waits"
    ]  # fmt: skip
    assert of["wide-1"][-1] == "Finished"
    (failed,) = [each for each in found if each["reason"] == "Failed"]
    assert (failed["type"], failed["involvedObject"]["kind"]) == ("Warning", "TrainingJob")
    assert failed["involvedObject"]["uid"] == yard.server.objects[f"{FOLDER}/trainingjobs/wrong"]["metadata"]["uid"]
