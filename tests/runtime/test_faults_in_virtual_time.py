"""Whatever dies, and whenever: every job ends, no saved step is lost, and nothing is held twice."""

import random
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.virtual_yard import VirtualAgents, VirtualClock, VirtualRank, VirtualYard

from gpuyard.client.control import UNKNOWN
from gpuyard.client.session import RankName
from gpuyard.core.errors import GpuyardError, InputError
from gpuyard.core.grants import Grant, Part
from gpuyard.core.workload import Job, Workload
from gpuyard.policies.resolve import resolve
from gpuyard.profiles import load_zoo
from gpuyard.runtime.attempts import BEATS_AHEAD, STARTS_OVER
from gpuyard.runtime.commands import LeaseTerms
from gpuyard.runtime.new_jobs import NewJob
from gpuyard.runtime.real_cluster import RunRules
from gpuyard.runtime.records import Attempt, JobRecord, JobState, RankState
from gpuyard.runtime.run_folder import make_run
from gpuyard.runtime.settling import Patience
from gpuyard.runtime.store import StoreFullError
from gpuyard.traces import generate, read_cluster

ROUND_S = 300.0
PATIENT = Patience(beat_s=10.0, leave_s=1e6, tries=1000)


def yard_of(folder: Path, patience: Patience = PATIENT, **costs: Any) -> VirtualYard:
    return VirtualYard(
        read_cluster("2x4:cpus=12,memory=250GB"), load_zoo(), folder, RunRules(ROUND_S), patience=patience, **costs
    )


def check_nothing_is_held_twice(yard: VirtualYard) -> None:
    """From what agents were told and processes did: no GPU had two at any moment, no node gave more than it has."""
    spans = sorted(yard.store.rows("spans"), key=lambda row: row["start_s"])
    check_no_node_gives_more_than_it_has(yard, spans)
    free_at: Counter[int] = Counter()
    for row in spans:
        for gpu in row["gpu_ids"]:
            assert row["start_s"] >= free_at[gpu] - 1e-6, row
            free_at[gpu] = row["end_s"]


def check_no_node_gives_more_than_it_has(yard: VirtualYard, spans: list[dict[str, Any]]) -> None:
    kind = yard.cluster.kinds[0]
    for name, most in (("cpus", kind.cpus), ("memory_gb", kind.memory_gb)):
        changes = [
            (when, sign, gpu // kind.gpus, row[name] / len(row["gpu_ids"]))
            for row in spans
            for gpu in row["gpu_ids"]
            for when, sign in ((row["start_s"], 1), (row["end_s"], -1))
        ]
        given: Counter[int] = Counter()
        for _, sign, node, amount in sorted(changes):  # at one instant, what ends comes first
            given[node] += sign * amount
            assert given[node] <= most + 1e-6, name


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


def test_jobs_keep_their_order_whoever_of_them_changed_last(tmp_path: Path) -> None:
    """By it ties are broken: another scheduler decides as the one before would have."""
    yard = yard_of(tmp_path)
    yard.world.add(NewJob(Job(name, 0.0, 1, "resnet50", duration_s=600.0)) for name in ("c", "a", "b"))
    yard.world.cancel("c")
    yard.world.hear()
    assert list(yard.successor().world.records) == ["c", "a", "b"]


def test_the_longest_wait_is_the_longest_time_without_processes(tmp_path: Path) -> None:
    """Who was stopped waits from then on, and not since it came."""
    yard = yard_of(tmp_path, start_s=20.0, save_s=5.0)
    yard.run(
        Workload.from_jobs([Job(name, 0.0, 8, "resnet50", duration_s=1500.0) for name in ("a", "b")]),
        resolve("las+proportional"),
    )
    rows = yard.store.rows("attempts")
    for name, record in yard.world.records.items():
        mine = [row for row in rows if row["job_id"] == name]
        ends = [0.0, *(row["end_s"] for row in mine)]
        waits = [row["start_s"] - end for row, end in zip(mine, ends, strict=False)]
        assert len(waits) > 2  # they take turns
        assert record.longest_wait_s == pytest.approx(max(waits))


KILLS = 300


@pytest.mark.parametrize("seed", [11])
def test_three_hundred_kills_of_anybody_lose_nothing_and_end(seed: int, tmp_path: Path) -> None:
    """Ranks in every phase, nodes and schedulers; what was saved stays, and no saved step is done twice."""
    yard = yard_of(tmp_path, start_s=60.0, save_s=60.0)
    yard.agents.save_every_s = 200.0
    chance = random.Random(seed)
    jobs = Workload.from_jobs(
        Job(f"job{number}", 500.0 * number, chance.choice((1, 2, 4, 8)), "resnet50", duration_s=9000.0)
        for number in range(10)
    )
    kills: Counter[str] = Counter()
    phases: Counter[str] = Counter()
    saved: Counter[str] = Counter()

    def strike() -> None:
        for name, steps in yard.agents.saved.items():
            assert steps >= saved[name]
            saved[name] = steps
        if kills.total() == KILLS:
            return
        yard.clock.at(yard.clock.now() + chance.expovariate(1 / 60.0), strike)
        there = [node for node in yard.cluster.node_names if node not in yard.agents.gone]
        victims: dict[str, list[Any]] = {"rank": sorted(yard.agents.ranks, key=str), "node": there, "scheduler": [""]}
        victim = chance.choices(("rank", "node", "scheduler"), (16, 2, 2))[0]
        if victims[victim]:  # or there is nobody to kill
            kills[victim] += 1
            kill(victim, chance.choice(victims[victim]))

    def kill(victim: str, which: Any) -> None:
        if victim == "scheduler":
            yard.die()
        elif victim == "node":
            yard.agents.lose(which, back_after_s=chance.uniform(1.0, 500.0))
        else:
            phases[yard.agents.ranks[which].phase] += 1
            yard.agents.kill(which)

    yard.clock.at(100.0, strike)
    while not yard.run_until_death(jobs, resolve("las+tune")):
        yard = yard.successor()
    assert kills.total() == KILLS
    assert min(kills.values()) > 10
    assert set(phases) == {"starts", "works", "leaves"}
    assert {record.state for record in yard.world.records.values()} == {JobState.FINISHED}
    assert all(yard.agents.saved[name] == record.total_steps for name, record in yard.world.records.items())
    check_nothing_is_held_twice(yard)


@pytest.mark.parametrize("moment", ["before it is kept", "after it is kept"])
def test_a_scheduler_that_dies_over_an_exit_starts_nobody_again(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard = yard_of(tmp_path)
    keep = yard.world._history.keep

    def die_over_exits() -> bool:
        if yard.agents.exits and moment == "before it is kept":
            yard.die()
        kept = keep()
        if yard.agents.exits and yard.world.records["only"].attempt is None:
            yard.die()
        return kept

    monkeypatch.setattr(yard.world._history, "keep", die_over_exits)
    jobs = Workload.from_jobs([Job("only", 0.0, 2, "resnet50", duration_s=1000.0)])
    assert not yard.run_until_death(jobs, resolve("fifo+tune"))
    yard = yard.successor()
    yard.run(jobs, resolve("fifo+tune"))
    only = yard.world.records["only"]
    assert (only.state, only.attempts, only.restarts) == (JobState.FINISHED, 1, 0)
    assert not yard.agents.exits


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


def test_a_job_whose_nodes_are_lost_is_not_to_blame_whatever_was_killed_with_it(tmp_path: Path) -> None:
    yard = yard_of(tmp_path, Patience(beat_s=10.0, tries=3), start_s=200.0)
    for time in range(100, 3000, 300):
        yard.clock.at(float(time), lambda: yard.agents.lose("node1", back_after_s=10.0))
    yard.run(Workload.from_jobs([Job("wide", 0.0, 8, "resnet50", duration_s=600.0)]), resolve("fifo+tune"))
    wide = yard.world.records["wide"]
    assert wide.state is JobState.FINISHED
    assert wide.restarts > 3


@pytest.mark.parametrize("speed", [1.0, 10.0])
def test_a_job_that_never_starts_is_killed_and_given_up(speed: float, tmp_path: Path) -> None:
    yard = yard_of(tmp_path, Patience(beat_s=10.0, begin_s=700.0, tries=2), clock=VirtualClock(speed))
    yard.agents.hung = {"hung"}
    jobs = [Job("hung", 0.0, 8, "resnet50", iterations=1e4), Job("good", 10.0, 8, "resnet50", iterations=1e4)]
    yard.run(Workload.from_jobs(jobs), resolve("fifo+tune"))
    hung = yard.world.records["hung"]
    assert (hung.state, hung.attempts) == (JobState.FAILED, 2)
    assert hung.note == "did not begin within 700 s and was killed"
    for row in yard.store.rows("attempts")[:2]:
        assert (row["job_id"], row["ended"], row["working_s"]) == ("hung", "failed", None)
        assert row["end_s"] - row["start_s"] == pytest.approx(700.0 * speed, abs=20.0 * speed)
    assert yard.world.records["good"].state is JobState.FINISHED
    assert not yard.agents.ranks


def test_the_first_last_words_of_a_job_with_several_processes_are_kept(tmp_path: Path) -> None:
    yard = yard_of(tmp_path, Patience(beat_s=10.0, tries=1))
    yard.clock.at(500.0, lambda: yard.agents.kill(RankName("wide", 1, 1)))
    yard.run(Workload.from_jobs([Job("wide", 0.0, 4, "resnet50", duration_s=3600.0)]), resolve("fifo+tune"))
    assert yard.world.records["wide"].note == "killed"
    assert yard.world.records["wide"].attempts == 1


def test_a_job_that_starts_over_says_so(tmp_path: Path) -> None:
    """One that cannot save loses all that it did each time that it is stopped."""
    yard = yard_of(tmp_path)
    yard.agents.forgetful = {"forgetful"}
    jobs = [Job(name, 0.0, 8, "resnet50", iterations=20_000.0, command="train") for name in ("forgetful", "keeps")]
    short = [Job(f"short{number}", 400.0 + number, 8, "resnet50", duration_s=300.0) for number in range(2)]
    yard.run(Workload.from_jobs(jobs + short), resolve("srtf+proportional"))
    records = yard.world.records
    assert {record.state for record in records.values()} == {JobState.FINISHED}
    rows = yard.store.rows("attempts")
    stopped = [row["job_id"] for row in rows if row["ended"] == "preempted"]
    assert stopped == ["forgetful"]
    assert records["forgetful"].note == STARTS_OVER
    assert not records["keeps"].note


@pytest.mark.parametrize("speed", [1.0, 10.0])
def test_a_job_that_ignores_its_lease_is_killed_and_goes_on_from_its_last_checkpoint(
    speed: float, tmp_path: Path
) -> None:
    """Processes have their time by the machine's clock, of which the run's is a multiple."""
    yard = yard_of(tmp_path, Patience(beat_s=10.0, leave_s=60.0), clock=VirtualClock(speed))
    yard.agents.deaf = {"deaf"}
    yard.agents.save_every_s = 500.0
    work = [Job("deaf", 0.0, 8, "resnet50", duration_s=7200.0), Job("short", 1000.0, 8, "resnet50", duration_s=600.0)]
    yard.run(Workload.from_jobs(work), resolve("srtf+proportional"))
    deaf = yard.world.records["deaf"]
    assert deaf.state is JobState.FINISHED
    assert deaf.preemptions == 1
    first = next(row for row in yard.store.rows("attempts") if row["job_id"] == "deaf")
    assert first["end_s"] - first["stop_asked_s"] == pytest.approx(60.0 * speed, abs=20.0 * speed)
    (short,) = (row for row in yard.store.rows("attempts") if row["job_id"] == "short")
    assert short["start_s"] > short["asked_s"]
    assert yard.world.records["short"].attained_s == short["end_s"] - short["start_s"]
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


def test_how_far_all_may_go_is_counted_from_the_first_of_them(tmp_path: Path) -> None:
    """Or it would have to wait for the last one, and be told again and again."""
    attempts = yard_of(tmp_path).world.attempts
    two = Grant("wide", (Part("node0", 0), Part("node0", 1)))
    attempt = Attempt(1, two, 0.0, 0.0, 0, 10, ranks=[RankState(4), RankState(10)], working_s=0.0)
    attempts._extend(JobRecord(Job("wide", 0.0, 2, "resnet50")), attempt, now=100.0)
    assert attempt.limit == 10 + BEATS_AHEAD  # a beat of 10 s is a step


def test_a_cancelled_job_leaves_and_is_not_started_again(tmp_path: Path) -> None:
    yard = yard_of(tmp_path)
    jobs = [Job(name, 0.0, 8, "resnet50", duration_s=3600.0) for name in ("runs", "waits", "stays")]

    def cancel(_now: float) -> None:
        assert yard.world.cancel("waits") is JobState.CANCELLED  # at once: nobody has to leave
        assert not yard.world.cancel("runs").over

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


def test_a_process_that_leaves_untold_has_not_finished(tmp_path: Path) -> None:
    """As processes do that were alone for too long."""
    yard = yard_of(tmp_path, start_s=20.0, save_s=5.0)
    yard.clock.at(1000.0, lambda: yard.agents.let_go(RankName("alone", 1, 0)))
    yard.run(Workload.from_jobs([Job("alone", 0.0, 1, "resnet50", duration_s=3600.0)]), resolve("fifo+tune"))
    first, second = yard.store.rows("attempts")
    assert (first["ended"], second["ended"]) == ("moved", "finished")
    assert first["last_step"] == second["first_step"] < second["last_step"]
    assert second["last_step"] == yard.world.records["alone"].total_steps
    assert first["due_s"] == 0.0
    assert first["leave_s"] == second["leave_s"] == 5.0
    by_profile_s = yard.world.records["alone"].step_s * second["last_step"]
    assert first["steps_s"] + second["steps_s"] == pytest.approx(by_profile_s)


def test_steps_that_are_lost_are_not_among_those_that_an_attempt_did(tmp_path: Path) -> None:
    yard = yard_of(tmp_path, start_s=20.0)
    yard.clock.at(1000.0, lambda: yard.agents.kill(RankName("one", 1, 0)))
    yard.run(Workload.from_jobs([Job("one", 0.0, 1, "resnet50", duration_s=3600.0)]), resolve("fifo+tune"))
    first, second = yard.store.rows("attempts")
    assert (first["ended"], first["last_step"], first["steps_s"]) == ("failed", 0, pytest.approx(0.0))
    assert second["steps_s"] == pytest.approx(yard.world.records["one"].step_s * second["last_step"])


def test_late_decisions_are_known_by_the_beginning_of_their_round(tmp_path: Path) -> None:
    yard = yard_of(tmp_path, start_s=20.0)
    yard.agents.decides_s = 7.0
    jobs = [Job(name, arrival_s, 8, "resnet50", duration_s=600.0) for name, arrival_s in (("a", 0.0), ("b", 10.0))]
    yard.run(Workload.from_jobs(jobs), resolve("fifo+tune"))
    rows = yard.store.rows("attempts")
    assert len(rows) == len(jobs)
    for row in rows:
        assert row["due_s"] % ROUND_S == 0
        assert row["asked_s"] - row["due_s"] == pytest.approx(7.0)


def test_a_job_that_tells_no_steps_is_not_taken_for_one_that_never_begins(tmp_path: Path) -> None:
    yard = yard_of(tmp_path, Patience(beat_s=10.0, begin_s=60.0, tries=1))
    yard.agents.hung = {"mute"}
    mute = Job("mute", 0.0, 1, "generic", command="train", iterations=1e6)

    def cancel(_now: float) -> None:
        yard.world.cancel("mute")

    yard.clock.at(5000.0, lambda: yard.world.post(cancel))
    yard.run(Workload.from_jobs([mute, Job("long", 0.0, 1, "resnet50", duration_s=6000.0)]), resolve("fifo+tune"))
    assert (yard.world.records["mute"].state, yard.world.records["mute"].attempts) == (JobState.CANCELLED, 1)


def test_on_a_full_disk_nobody_is_started_or_stopped_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    yard = yard_of(tmp_path, start_s=20.0)
    jobs = [Job(f"job{number}", 100.0 * number, 8, "resnet50", duration_s=600.0) for number in range(12)]
    started: list[int] = []

    def fail(_records: object) -> None:
        raise StoreFullError("full")

    def full() -> None:
        monkeypatch.setattr(yard.store, "save", fail)
        started.append(len(yard.agents.starts))

    def room() -> None:
        monkeypatch.undo()
        started.append(len(yard.agents.starts))

    yard.clock.at(2000.0, full)
    yard.clock.at(9000.0, room)
    yard.run(Workload.from_jobs(jobs), resolve("fifo+tune"))
    assert 0 < started[0] == started[1] < len(jobs)
    assert {record.state for record in yard.world.records.values()} == {JobState.FINISHED}
    assert len(yard.store.rows("attempts")) == len(jobs)
    assert capsys.readouterr().out == "gpuyard: full: nobody is started or stopped until that is mended\n"
    check_nothing_is_held_twice(yard)


def test_a_full_disk_does_not_put_off_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of several processes, which wait there for room at a step that all know, leave at once."""
    yard = yard_of(tmp_path, start_s=20.0)
    jobs = [Job("wide", 0.0, 4, "resnet50", iterations=1e6), Job("next", 3200.0, 4, "resnet50", iterations=1e6)]
    kept: list[int] = []

    def fail(_records: object) -> None:
        raise StoreFullError("full")

    def full() -> None:
        monkeypatch.setattr(yard.store, "save", fail)
        kept.append(len(yard.store.rows("spans")))

    yard.clock.at(2000.0, full)
    yard.clock.at(9000.0, lambda: yard.world.post(lambda _now: yard.world.end()))
    yard.run(Workload.from_jobs(jobs), resolve("fifo+tune"))
    assert yard.world.now == pytest.approx(9000.0, abs=100.0)  # some beats until all stop at one step
    assert not yard.agents.ranks
    run = make_run(yard.world, load_zoo(), policy="fifo+tune", load=None, timing={})
    assert run.info["notes"] == ["incomplete: 2 of 2 jobs are not finished"]
    assert run.tables["attempts"]["ended"].to_list()[0] == "preempted"
    assert len(run.timeline) > kept[0] == len(yard.store.rows("spans"))
    monkeypatch.undo()
    done = yard.world.records["wide"].done_steps
    later = yard.successor()
    later.clock.at(20_000.0, lambda: later.world.post(lambda _now: later.world.end()))
    later.agents.world = later.world
    later.run(Workload.from_jobs(jobs), resolve("fifo+tune"))
    assert later.store.rows("attempts")[-1]["first_step"] == done > 0


def test_jobs_that_a_full_disk_has_no_room_for_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    yard = yard_of(tmp_path)
    more = [NewJob(Job("x" * number, 0.0, 1, "resnet50", iterations=1.0)) for number in range(1, 100)]
    yard.store._file.execute("PRAGMA max_page_count=1")  # or as many as it has
    with pytest.raises(GpuyardError, match="no room on the disk for more jobs"):
        yard.world.add(more)
    assert not yard.world.records
    assert not yard.store.records()
    yard.store._file.execute(f"PRAGMA max_page_count={1 << 30}")
    assert yard.world.add(more) == list(yard.store.records())


def test_a_command_of_which_nobody_knows_how_long_it_takes_runs_until_it_ends(tmp_path: Path) -> None:
    yard = yard_of(tmp_path)

    def come(_now: float) -> None:
        with pytest.raises(InputError, match="more than the 8"):
            yard.world.add([NewJob(Job("wide", 1000.0, 99, "generic", command="train"))])
        yard.world.add([NewJob(Job("open", 1000.0, 1, "generic", command="train"))])

    yard.clock.at(1000.0, lambda: yard.world.post(come))
    yard.clock.at(5000.0, lambda: yard.agents.end_well(RankName("open", 1, 0)))
    yard.run(Workload.from_jobs([Job("early", 0.0, 1, "resnet50", duration_s=6000.0)]), resolve("srtf+tune"))
    ended = yard.world.records["open"]
    assert (ended.state, ended.attempts, ended.total_steps) == (JobState.FINISHED, 1, UNKNOWN)
    run = make_run(yard.world, load_zoo(), policy="srtf+tune", load=None, timing={})
    assert run.jobs["iterations"].to_list()[1] == ended.done_steps > 0
    assert run.info["notes"] == []


def test_nobody_is_given_up_for_the_loss_of_its_node(tmp_path: Path) -> None:
    yard = yard_of(tmp_path, Patience(beat_s=10.0, tries=1))
    for when in (500.0, 1500.0):
        for node in yard.cluster.node_names:
            yard.clock.at(when, partial(yard.agents.lose, node, 400.0))
    yard.run(Workload.from_jobs([Job("wide", 0.0, 8, "resnet50", duration_s=3000.0)]), resolve("fifo+tune"))
    wide = yard.world.records["wide"]
    assert (wide.state, wide.restarts, wide.attempts) == (JobState.FINISHED, 2, 3)
    held_s = sum(row["end_s"] - row["start_s"] for row in yard.store.rows("attempts"))
    assert wide.attained_s == pytest.approx(held_s)  # of all its attempts


def test_a_round_is_not_left_out_when_a_job_is_not_as_far_as_it_should_be(tmp_path: Path) -> None:
    yard = yard_of(tmp_path)
    seen = []

    def delay() -> None:
        rank = yard.agents.ranks[RankName("only", 1, 0)]
        rank.since += 600.0  # it does no step for so long
        seen.append(len(yard.seen))

    yard.clock.at(4050.0, delay)
    yard.clock.at(6050.0, lambda: seen.append(len(yard.seen)))
    jobs = Workload.from_jobs([Job("only", 0.0, 1, "resnet50", duration_s=8000.0)])
    yard.run(jobs, resolve("srtf+proportional"))
    assert seen[1] > seen[0]
    assert len(yard.seen) < 8000.0 / ROUND_S / 2


def test_a_round_is_not_left_out_when_an_empty_node_is_lost(tmp_path: Path) -> None:
    yard = yard_of(tmp_path)
    seen = []
    yard.clock.at(4050.0, lambda: seen.append(len(yard.seen)))
    yard.clock.at(4060.0, lambda: yard.agents.lose("node1", 1e5))
    yard.clock.at(5050.0, lambda: seen.append(len(yard.seen)))
    jobs = Workload.from_jobs([Job("only", 0.0, 1, "resnet50", duration_s=8000.0)])
    yard.run(jobs, resolve("fifo+proportional"))
    assert yard.store.rows("spans")[0]["gpu_ids"][0] < yard.cluster.kinds[0].gpus  # on the other node
    assert seen[1] == seen[0] + 1


def test_processes_that_nobody_knows_are_ended_when_their_agent_is_back(tmp_path: Path) -> None:
    yard = yard_of(tmp_path)
    ghost = RankName("ghost", 1, 0)
    yard.agents.ranks[ghost] = VirtualRank(ghost, "node0", LeaseTerms(step_s=1.0), 100, 0.0)
    yard.agents.attach("node0")
    yard.world.hear()
    assert not yard.agents.ranks


def test_an_attempt_begins_where_what_it_could_load_ends(tmp_path: Path) -> None:
    """The last checkpoints are damaged, or somebody has taken them away: steps are done again, and told."""
    yard = yard_of(tmp_path, start_s=20.0)
    yard.agents.save_every_s = 300.0

    def lose() -> None:
        yard.agents.saved["one"] //= 2
        yard.agents.kill(RankName("one", 1, 0))

    yard.clock.at(1000.0, lose)
    yard.run(Workload.from_jobs([Job("one", 0.0, 1, "resnet50", duration_s=3600.0)]), resolve("fifo+tune"))
    first, second = yard.store.rows("attempts")
    assert 0 < second["first_step"] == first["last_step"] // 2
    assert second["last_step"] == yard.world.records["one"].total_steps
    by_profile_s = yard.world.records["one"].step_s * (second["last_step"] - second["first_step"])
    assert second["steps_s"] == pytest.approx(by_profile_s)


def test_a_job_that_ends_by_itself_has_done_what_it_told(tmp_path: Path) -> None:
    yard = yard_of(tmp_path)
    yard.clock.at(1000.0, lambda: yard.agents.end_well(RankName("one", 1, 0)))
    yard.run(Workload.from_jobs([Job("one", 0.0, 1, "resnet50", duration_s=3600.0)]), resolve("fifo+tune"))
    one = yard.world.records["one"]
    (only,) = yard.store.rows("attempts")
    assert (one.state, only["ended"]) == (JobState.FINISHED, "finished")
    assert 0 < one.done_steps == only["last_step"] < one.total_steps
    run = make_run(yard.world, load_zoo(), policy="fifo+tune", load=None, timing={})
    assert run.info["notes"] == [
        f"job one ended by itself after {one.done_steps} of {one.total_steps} steps, and counts as finished"
    ]


def test_a_node_that_was_lost_before_a_job_was_started_there_takes_no_time_from_it(tmp_path: Path) -> None:
    """As when an agent dies while the scheduler decides: what happened meanwhile takes effect when it has decided."""
    yard = yard_of(tmp_path, start_s=20.0)

    def lose(_now: float) -> None:
        for node in yard.cluster.node_names:
            yard.world.node_lost(node, 100.0)
            yard.agents.attach(node)

    yard.clock.at(310.0, lambda: yard.world.post(lose))
    yard.run(Workload.from_jobs([Job("one", 250.0, 1, "resnet50", duration_s=600.0)]), resolve("fifo+tune"))
    one = yard.world.records["one"]
    assert (one.state, one.restarts) == (JobState.FINISHED, 1)
    assert all(row["end_s"] >= row["start_s"] for row in yard.store.rows("attempts"))
    assert one.attained_s == sum(row["end_s"] - row["start_s"] for row in yard.store.rows("attempts"))


def test_processes_that_all_save_do_so_after_the_same_steps_and_go_on_after_one_of_them(tmp_path: Path) -> None:
    """One is slower than the others, some are killed: each attempt begins where the one before it was kept by all."""
    ranks = 4
    yard = yard_of(tmp_path, start_s=20.0, save_s=5.0, save_every_s=600.0)
    yard.agents.own = {("wide", rank): set() for rank in range(ranks)}
    yard.agents.slowness = lambda name: 1.0 + 0.3 * name.rank
    jobs = Workload.from_jobs([Job("wide", 0.0, ranks, "resnet50", duration_s=20000.0)])
    chance = random.Random(5)
    kept: list[int] = []

    def strike() -> None:
        record = yard.world.records["wide"]
        if record.state.over:
            return
        if record.attempt is not None and all(each.working for each in record.attempt.ranks):
            for rank in sorted(yard.agents.ranks, key=lambda name: name.rank)[chance.randrange(ranks) :]:
                yard.agents.kill(rank)
            kept.append(yard.agents.by_all("wide"))
        yard.clock.at(yard.clock.now() + chance.uniform(1000.0, 4000.0), strike)

    yard.clock.at(3000.0, strike)
    yard.run(jobs, resolve("fifo+proportional"))
    record = yard.world.records["wide"]
    attempts = yard.store.rows("attempts")
    assert (record.state, record.done_steps) == (JobState.FINISHED, record.total_steps)
    assert len(kept) > 3
    assert [row["first_step"] for row in attempts] == [0, *(row["last_step"] for row in attempts[:-1])] == [0, *kept]
    assert len(set(kept)) > 3


def test_processes_that_would_go_on_after_different_steps_are_ended_before_they_do_one(tmp_path: Path) -> None:
    yard = yard_of(tmp_path, Patience(beat_s=10.0, leave_s=1e6, tries=2))
    yard.world.add([NewJob(Job("wide", 0.0, 2, "resnet50", duration_s=900.0))])
    yard.world.hear()
    yard.agents.saved["wide"] = 5
    began = VirtualAgents._work

    def apart(agents: VirtualAgents, name: RankName) -> None:
        rank = agents.ranks[name]
        rank.loaded = 5 - 2 * name.rank
        rank.step = float(rank.loaded)
        began(agents, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VirtualAgents, "_work", apart)
        yard.run(Workload.from_jobs([]), resolve("fifo+proportional"))
    record = yard.world.records["wide"]
    assert (record.state, record.attempts) == (JobState.FAILED, 2)
    assert record.note == "its processes would go on after different steps (3, 5) and were ended"
