"""Experiments of sharing with real processes on the emulated driver: who waited for whom, by counts."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest

from gpuyard.cli import main
from gpuyard.core.errors import GpuyardError
from gpuyard.core.sharing import KernelSequence, SharedJob, SharingExperiment
from gpuyard.emulation.shared_experiment import EmulatedGround, emulate_sharing
from gpuyard.sharing.experiment import share_in_processes
from gpuyard.sharing.ground import GpuTimes
from gpuyard.sharing.group import GateClient, Group, Terms
from gpuyard.sharing.job_process import GateCounters, JobOrder, run_jobs
from gpuyard.sharing.kernels import KernelCode
from gpuyard.sharing.launcher import Launcher
from gpuyard.sharing.monitor import read_groups
from gpuyard.simulation.device.engine import share

TRADE_OFF = Path(__file__).resolve().parents[2] / "examples" / "sharing" / "trade-off.json"
BACKGROUND = SharedJob("background", KernelSequence.uniform(100, 3e-4), sync_every=4, least_jobs=6)
URGENT = SharedJob("urgent", KernelSequence.uniform(30, 1e-4), 1, thinks_s=(0.02,), least_jobs=6)


def test_the_urgent_job_goes_first_and_the_background_job_keeps_its_cap() -> None:
    """A gate has 64 levels; priorities are any numbers, of which only the order counts."""
    jobs = replace(BACKGROUND, priority=100), replace(URGENT, priority=1000)
    background, urgent = share_in_processes(SharingExperiment(jobs, 0.2), EmulatedGround())
    assert all(row["preemptions"] == row["syncs"] == 0 for row in urgent.rows)
    assert urgent.longest_queue == 30
    assert background.longest_queue == 4
    assert sum(row["preemptions"] for row in background.rows) > 0
    for row in background.rows:  # a drain that a preemption brings begins the count of four anew
        assert 100 // 4 - row["preemptions"] <= row["syncs"] <= 100 // 4
    assert min(len(background.rows), len(urgent.rows)) >= 6


def test_without_a_gate_nobody_waits() -> None:
    jobs = (replace(BACKGROUND, sync_every=0), URGENT)
    for record in share_in_processes(SharingExperiment(jobs, 0.1, policy="none"), EmulatedGround()):
        assert all(row["preemptions"] == row["syncs"] == row["waited_s"] == 0 for row in record.rows)


def test_a_policy_of_the_simulator_decides() -> None:
    jobs = tuple(replace(BACKGROUND, name=f"job {priority}", priority=priority, sync_every=0) for priority in (0, 1))
    records = share_in_processes(SharingExperiment(jobs, 0.1, policy="reef"), EmulatedGround())
    assert all(row["syncs"] >= 100 // 4 - row["preemptions"] for row in records[0].rows)
    assert all((row["syncs"], row["preemptions"]) == (25, 0) for row in records[1].rows)


@dataclass(frozen=True)
class Watched(EmulatedGround):
    """Remembers what the emulated machine tells the controller: seconds of GPU work for each process."""

    looks: list[dict[int, float]] = field(default_factory=list)

    def gpu_times(self, run: str) -> GpuTimes:
        times = super().gpu_times(run)

        def look(uuid: str) -> Mapping[int, float]:
            self.looks.append(dict(times(uuid)))
            return self.looks[-1]

        return look

    def gpu_seconds(self) -> list[float]:
        """What each process had of a second of GPU work, from the first look on, the most first."""
        everybody = [look for look in self.looks if look.keys() == self.looks[0].keys()]
        first = everybody[0]
        whole = (look for look in everybody if sum(look.values()) - sum(first.values()) >= 1.0)
        last = next(whole, everybody[-1])  # on a machine too busy for a second's work, of all that was done
        return sorted((last[pid] - first[pid] for pid in first), reverse=True)

    def longest_turn_s(self) -> float:
        """The most GPU work between two looks: until the next one, whoever is ahead stays ahead."""
        totals = [sum(look.values()) for look in self.looks if look.keys() == self.looks[0].keys()]
        return max(later - earlier for earlier, later in pairwise(totals))


def test_shares_hold_within_five_percent_over_a_second_of_gpu_work() -> None:
    """Give or take a turn. Time is the GPU's: on a busy machine less of it passes, in longer turns.

    Processes that took turns without regard to shares would have time as their kernels are long: 25, 25 and 50 %.
    """
    sharers = [(0.6, 0.001), (0.3, 0.001), (0.1, 0.002)]
    # One job each, of all that it is to have: between two jobs, for as long as its host is busy, nobody wants anything.
    jobs = tuple(
        SharedJob(str(share), KernelSequence.uniform(round(1.25 * share / kernel_s), kernel_s), share=share)
        for share, kernel_s in sharers
    )
    ground = Watched(speed=0.2)
    share_in_processes(SharingExperiment(jobs, 0.001, policy="shares:sync=2,over=1000ms"), ground)
    got_s = ground.gpu_seconds()
    for had_s, (part, kernel_s) in zip(got_s, sharers, strict=True):
        turn_s = ground.longest_turn_s() + 2 * kernel_s
        assert had_s == pytest.approx(part * sum(got_s), rel=0.05, abs=turn_s)


def test_a_job_that_synchronises_after_each_layer_is_one_job() -> None:
    """Nobody of a lower priority gets in between, here as in the simulated world."""
    layered = replace(URGENT, layers=True)
    background, urgent = share_in_processes(SharingExperiment((BACKGROUND, layered), 0.2), EmulatedGround())
    assert urgent.longest_queue == 1
    assert all(row["syncs"] == 30 for row in urgent.rows)
    assert sum(row["preemptions"] for row in background.rows) <= len(urgent.rows)


@pytest.mark.parametrize(("policy", "synchronises"), [("pipeswitch", True), ("priority", False), ("none", False)])
def test_who_synchronises_by_layer_is_for_the_policy_to_say(policy: str, synchronises: bool) -> None:
    """Where layers are not known each kernel is one; both worlds count the same."""
    experiment = SharingExperiment((URGENT,), 1e-3, policy=policy)
    (record,) = share_in_processes(experiment, EmulatedGround())
    (gpu,) = share(experiment)
    counted = {row["syncs"] for row in record.rows} | set(gpu.done().syncs.tolist())
    assert counted == {30 if synchronises else 0}


def test_kernels_of_several_lengths_on_several_streams_with_layers() -> None:
    sequence = KernelSequence((1e-4, 2e-4, 1e-4, 5e-5), (2, 4))
    job = SharedJob("mixed", sequence, streams=2, layers=True, least_jobs=3)
    (record,) = share_in_processes(SharingExperiment((job,), 1e-3, policy="pipeswitch"), EmulatedGround())
    assert len(record.rows) >= 3
    assert all(row["finish_s"] - row["start_s"] >= 2.5e-4 for row in record.rows), (
        "less than the GPU takes is impossible"
    )


def test_jobs_come_when_they_are_due() -> None:
    job = replace(URGENT, arrivals_s=(0.0, 0.001, 0.05))
    (record,) = share_in_processes(SharingExperiment((job,), 1.0), EmulatedGround())
    assert [row["arrival_s"] for row in record.rows] == [0.0, 0.001, 0.05]
    assert all(row["start_s"] >= row["arrival_s"] for row in record.rows)


def test_where_no_job_ever_comes_there_are_no_times() -> None:
    run = emulate_sharing(SharingExperiment((replace(URGENT, arrivals_s=()),), 0.1))
    assert run["processes"].select("jobs_done", "jct_ms_p50", "gpu_share").rows() == [(0, None, 0.0)]


class Idle(Launcher):
    """Launches nothing."""

    def __init__(self) -> None:
        """Need no driver."""

    def run(self, kernels: tuple[int, ...], layer_ends: frozenset[int]) -> None:
        """Be done at once."""


def test_a_job_of_a_closed_loop_comes_when_its_process_has_woken_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause may last longer than it should: that is no part of the job."""
    monkeypatch.delenv("GPUYARD_GATE", raising=False)
    order = JobOrder((0,), KernelCode("", (), ()), 0, (), 1, (0.001,), None, 1e-6, 3, speed=1.0)
    rows = run_jobs(order, Idle(), GateCounters(), time.monotonic())
    assert len(rows) == 3
    assert all(later["arrival_s"] > earlier["finish_s"] + 0.001 for earlier, later in pairwise(rows))


class HeldUp(Launcher):
    """Instead of launching, waits at the gate until whoever is above it is done."""

    def __init__(self, low: GateClient, high: GateClient, group: Group) -> None:
        self.low, self.high, self.group = low, high, group

    def run(self, kernels: tuple[int, ...], layer_ends: frozenset[int]) -> None:
        self.high.arrive()
        self.low.arrive()
        waiting = threading.Thread(target=self.low.wait)
        waiting.start()
        while not self.group.look(0).clients[0].waiting:
            pass
        self.high.drained(0)
        waiting.join()


def test_waits_are_told_in_seconds_of_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUYARD_SHM", str(tmp_path))
    monkeypatch.setenv("GPUYARD_GATE", "test")
    group = Group("test")
    low, high = group.connect("gpu", Terms(0)), group.connect("gpu", Terms(1))
    order = JobOrder((0,), KernelCode("", (), ()), 0, (), 1, (0.0,), (0.0,), 1.0, 1, speed=100.0)
    (row,) = run_jobs(order, HeldUp(low, high, group), GateCounters(), time.monotonic())
    waited_ns = group.look(0).clients[0].waited_ns
    assert waited_ns > 0
    assert row["waited_s"] == pytest.approx(waited_ns / 1e9 * 100.0)


def test_a_run_has_what_a_simulated_one_has() -> None:
    run = emulate_sharing(SharingExperiment((BACKGROUND, URGENT), 0.1), 1.0, {"experiment": "x"})
    assert (run.info["world"], run.info["kind"], run.info["experiment"]) == ("emulated", "sharing", "x")
    assert run["processes"]["job"].to_list() == ["background", "urgent"]
    assert run["completions"].filter(~run["completions"]["measured"]).height == 2  # the first job of each
    assert (run["processes"]["slowdown"] > 0).all()


def test_a_process_that_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUYARD_CLOCK", "no such clock")
    with pytest.raises(GpuyardError, match="'urgent' ended before it was ready"):
        share_in_processes(SharingExperiment((URGENT,), 0.1), EmulatedGround())


def test_ctrl_c_leaves_no_process_and_no_run_and_says_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUYARD_SHM", str(tmp_path))
    command = [sys.executable, "-m", "gpuyard", "share", str(TRADE_OFF), "--world", "emulated", "--quiet"]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True) as running:
        while not (sharers := [each for each in read_groups() if each.jobs_done]):
            assert running.poll() is None
            time.sleep(0.01)
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does
        _, said = running.communicate()
    assert (running.returncode, said) == (130, "interrupted: nothing was left half-written\n")
    for each in sharers:
        with pytest.raises(ProcessLookupError):
            os.kill(each.pid, 0)
    assert not list(tmp_path.iterdir()), "a run, or shared memory"


def is_running(pid: int) -> bool:
    """Whether there is such a process, other than one that has ended and was not yet looked for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_when_the_command_is_killed_its_processes_end_and_the_next_one_finds_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUYARD_SHM", str(tmp_path))
    command = [sys.executable, "-m", "gpuyard", "share", str(TRADE_OFF), "--world", "emulated", "--seconds", "1e6"]
    with subprocess.Popen([*command, "--quiet"]) as running:
        while not (sharers := [each for each in read_groups() if each.jobs_done]):
            assert running.poll() is None
            time.sleep(0.01)
        running.kill()
    for each in sharers:
        while is_running(each.pid):  # for ever if they went on: a test has a time limit
            time.sleep(0.01)
    assert not list(tmp_path.iterdir()), "a run, or shared memory"


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    options = [
        "--world",
        "emulated",
        "--policy",
        "priority:sync=10",
        "--seconds",
        "0.3",
        "--format",
        "json",
        "--no-figures",
    ]
    with pytest.raises(SystemExit) as ended:
        main(["share", str(TRADE_OFF), *options, "--no-figures", "--quiet"])
    assert not ended.value.code
    rows = {row["job"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["urgent"]["preemptions"] == 0
    assert rows["background"]["preemptions"] > 0
    (log,) = tmp_path.glob("runs/*-logs/urgent.csv")
    with log.open() as file:
        assert next(csv.reader(file))[:3] == ["start_timestamp_ns", "end_timestamp_ns", "jct_ms"]
