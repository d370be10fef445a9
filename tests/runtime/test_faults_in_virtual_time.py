"""Whatever dies, and whenever: every job ends, no saved step is lost, and nothing is held twice."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.virtual_yard import VirtualYard

from gpuyard.core.workload import Job, Workload
from gpuyard.policies.resolve import resolve
from gpuyard.profiles import load_zoo
from gpuyard.runtime.new_jobs import NewJob
from gpuyard.runtime.real_cluster import RunRules
from gpuyard.runtime.records import JobState
from gpuyard.runtime.settling import Patience
from gpuyard.traces import generate, read_cluster

ROUND_S = 300.0
PATIENT = Patience(beat_s=10.0, leave_s=1e6, tries=1000)


def yard_of(folder: Path, patience: Patience = PATIENT, **costs: Any) -> VirtualYard:
    return VirtualYard(
        read_cluster("2x4:cpus=12,memory=250GB"), load_zoo(), folder, RunRules(ROUND_S), patience=patience, **costs
    )


def check_nothing_is_held_twice(yard: VirtualYard) -> None:
    """From what agents were told and processes did: no GPU had two at any moment."""
    spans = sorted(yard.store.rows("spans"), key=lambda row: row["start_s"])
    free_at: Counter[int] = Counter()
    for row in spans:
        for gpu in row["gpu_ids"]:
            assert row["start_s"] >= free_at[gpu] - 1e-6, row
            free_at[gpu] = row["end_s"]


@pytest.mark.parametrize("policy", ["las+tune", "srtf+proportional"])
@pytest.mark.parametrize("seed", range(4))
def test_random_deaths_of_processes_and_nodes(policy: str, seed: int, tmp_path: Path) -> None:
    yard = yard_of(tmp_path, start_s=20.0, save_s=5.0)
    jobs = generate(jobs=16, load=12, seed=seed, durations="small", multi_gpu=True)
    chance = random.Random(seed)
    saved: Counter[str] = Counter()

    def strike() -> None:
        for name, steps in yard.agents.saved.items():
            assert steps >= saved[name]
            saved[name] = steps
        for record in yard.world.records.values():
            if record.attempt is None:  # what was not saved is gone, and policies must not count on it
                assert record.done_steps == record.saved_steps
        if all(record.state.over for record in yard.world.records.values()):
            return
        if chance.random() < 0.8 and yard.agents.ranks:
            yard.agents.kill(chance.choice(sorted(yard.agents.ranks, key=str)))
        else:
            yard.agents.lose(chance.choice(yard.cluster.node_names), back_after_s=chance.uniform(1.0, 500.0))
        yard.clock.at(yard.clock.now() + chance.expovariate(1 / 400.0), strike)

    yard.clock.at(500.0, strike)
    yard.agents.save_every_s = 600.0
    yard.run(jobs, resolve(policy))
    assert {record.state for record in yard.world.records.values()} == {JobState.FINISHED}
    assert all(record.done_steps == record.total_steps for record in yard.world.records.values())
    assert sum(record.restarts for record in yard.world.records.values()) > 0
    check_nothing_is_held_twice(yard)


@pytest.mark.parametrize("seed", range(4))
def test_a_scheduler_that_dies_is_followed_by_one_that_loses_and_repeats_nothing(seed: int, tmp_path: Path) -> None:
    yard = yard_of(tmp_path, start_s=20.0, save_s=5.0)
    jobs = generate(jobs=16, load=12, seed=seed, durations="small", multi_gpu=True)
    chance = random.Random(seed)
    for _ in range(6):
        yard.clock.at(yard.clock.now() + chance.uniform(100.0, 4000.0), yard.die)
        if yard.run_until_death(jobs, resolve("las+tune")):
            break
        yard = yard.successor()
    yard.run(jobs, resolve("las+tune"))
    assert {record.state for record in yard.world.records.values()} == {JobState.FINISHED}
    starts = Counter((command.job, command.attempt, rank) for command in yard.agents.starts for rank in command.ranks)
    assert set(starts.values()) == {1}
    check_nothing_is_held_twice(yard)


def test_a_job_that_comes_to_nothing_is_given_up_with_its_last_words(tmp_path: Path) -> None:
    yard = yard_of(tmp_path, Patience(beat_s=10.0, tries=3))
    yard.agents.crashes = {"bad": "no such file: data"}
    jobs = [Job("bad", 0.0, 1, "resnet50", iterations=1e4), Job("good", 0.0, 1, "resnet50", iterations=1e4)]
    yard.run(Workload.from_jobs(jobs), resolve("fifo+tune"))
    records = yard.world.records
    assert (records["bad"].state, records["bad"].attempts, records["bad"].note) == (
        JobState.FAILED, 3, "no such file: data",
    )  # fmt: skip
    assert records["good"].state is JobState.FINISHED


def test_a_job_that_ignores_its_lease_is_killed_and_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    yard = yard_of(tmp_path, Patience(beat_s=10.0, leave_s=60.0))
    yard.agents.deaf = {"deaf"}
    yard.agents.save_every_s = 500.0
    work = [Job("deaf", 0.0, 8, "resnet50", duration_s=7200.0), Job("short", 1000.0, 8, "resnet50", duration_s=600.0)]
    yard.run(Workload.from_jobs(work), resolve("srtf+proportional"))
    deaf = yard.world.records["deaf"]
    assert deaf.state is JobState.FINISHED
    assert deaf.preemptions == 1
    first = next(row for row in yard.store.rows("attempts") if row["job_id"] == "deaf")
    assert first["end_s"] - first["stop_asked_s"] == pytest.approx(60.0, abs=20.0)
    check_nothing_is_held_twice(yard)


def test_the_step_at_which_all_stop_stays_where_it_is_once_they_are_told(tmp_path: Path) -> None:
    yard = yard_of(tmp_path)
    limits = []

    def look() -> None:
        attempt = yard.world.records["wide"].attempt
        if attempt is not None and attempt.leaving:
            limits.append(attempt.limit)
            yard.agents.report_all()

    yard.clock.at(1000.0, lambda: yard.world.post(lambda _now: yard.world.end()))
    for later in range(1, 60, 4):
        yard.clock.at(1000.0 + later, look)
    yard.run(Workload.from_jobs([Job("wide", 0.0, 2, "resnet50", duration_s=7200.0)]), resolve("fifo+proportional"))
    assert len(limits) > 2
    assert set(limits) == {yard.agents.saved["wide"]}


def test_a_cancelled_job_leaves_and_is_not_started_again(tmp_path: Path) -> None:
    yard = yard_of(tmp_path)
    jobs = [Job(name, 0.0, 8, "resnet50", duration_s=3600.0) for name in ("runs", "waits", "stays")]

    def cancel(_now: float) -> None:
        for name in ("runs", "waits"):
            yard.world.cancel(name)

    yard.clock.at(650.0, lambda: yard.world.post(cancel))
    yard.run(Workload.from_jobs(jobs), resolve("fifo+proportional"))
    states = {name: record.state for name, record in yard.world.records.items()}
    assert states == {"runs": JobState.CANCELLED, "waits": JobState.CANCELLED, "stays": JobState.FINISHED}
    assert yard.world.records["stays"].start_s == 900.0


def test_ending_lets_everybody_save_and_another_run_go_on(tmp_path: Path) -> None:
    yard = yard_of(tmp_path, save_s=5.0)
    jobs = generate(jobs=8, load=12, seed=1, durations="small")
    yard.clock.at(4000.0, lambda: yard.world.post(lambda _now: yard.world.end()))
    yard.run(jobs, resolve("fifo+tune"))
    assert not yard.agents.ranks
    left = {name: record.done_steps for name, record in yard.world.records.items() if not record.state.over}
    assert left
    assert all(record.attempt is None for record in yard.world.records.values())
    after = yard.successor()
    assert {name: after.world.records[name].done_steps for name in left} == left
    after.run(jobs, resolve("fifo+tune"))
    assert {record.state for record in after.world.records.values()} == {JobState.FINISHED}


def test_jobs_may_come_while_others_run(tmp_path: Path) -> None:
    yard = yard_of(tmp_path)
    late = NewJob(Job("late", 1000.0, 1, "resnet50", duration_s=600.0))

    def come(_now: float) -> None:
        yard.world.add([late])

    yard.clock.at(1000.0, lambda: yard.world.post(come))
    yard.run(Workload.from_jobs([Job("early", 0.0, 1, "resnet50", duration_s=3600.0)]), resolve("fifo+proportional"))
    assert yard.world.records["late"].finish_s == pytest.approx(1800.0, abs=1.0)
