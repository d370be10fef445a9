"""An agent that is there and says nothing: it is ended with all that it started, and its jobs go on."""

import os
import signal
import threading
import time
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from gpuyard.client.checkpoints import Checkpoints
from gpuyard.client.control import messages
from gpuyard.client.session import RankName
from gpuyard.core.workload import Job
from gpuyard.policies.resolve import resolve
from gpuyard.profiles import load_zoo
from gpuyard.runtime.addresses import AgentSettings
from gpuyard.runtime.agent import NodeAgent, RunningRank
from gpuyard.runtime.launching import job_folder
from gpuyard.runtime.new_jobs import NewJob
from gpuyard.runtime.process_ids import is_still
from gpuyard.runtime.rank_process import RankProcess
from gpuyard.runtime.real_cluster import RunRules
from gpuyard.runtime.records import JobState
from gpuyard.runtime.scheduler import RunSettings, Scheduler
from gpuyard.runtime.service import AttachedAgents, SchedulerService
from gpuyard.runtime.settling import Patience
from gpuyard.traces import read_cluster


def test_an_agent_that_is_stopped_loses_its_node_and_its_jobs_go_on(tmp_path: Path) -> None:
    settings = RunSettings(
        tmp_path / "state", speed=600.0, save_every_s=300.0, lease_s=600.0, rules=RunRules(round_s=300.0),
        patience=Patience(silent_s=5.0, leave_s=600.0, begin_s=600.0),
    )  # fmt: skip
    scheduler = Scheduler(read_cluster("1x1:cpus=3,memory=62GB,type=V100"), resolve("fifo+tune"), load_zoo(), settings)
    scheduler.take([NewJob(Job("only", 0.0, 1, "resnet50", duration_s=6000.0))])
    stopped: list[list[int]] = []

    def stop() -> None:
        """Once the job has saved something, its agent says nothing more."""
        only = scheduler.world.records["only"]
        while not only.saved_steps:
            time.sleep(0.05)
        handle = (scheduler.store.meta("agents") or {})["node0"]
        os.kill(handle[0], signal.SIGSTOP)
        stopped.append(handle)

    stopper = threading.Thread(target=stop, daemon=True)
    stopper.start()
    try:
        scheduler.run()
    finally:
        scheduler.close()
    stopper.join()
    only = scheduler.world.records["only"]
    assert only.state is JobState.FINISHED
    assert only.restarts >= 1
    assert not is_still(*stopped[0][:2])
    step, state = Checkpoints(job_folder(settings.state, "only") / "checkpoints").newest()
    assert step == only.total_steps
    assert state is not None


def test_silence_is_counted_only_while_somebody_listens() -> None:
    agents = AttachedAgents()
    assert [agents.looks_since_heard("a") for _ in range(3)] == [0, 0, 0]  # it may take long to start
    link = agents.attach("a", agents.next_number("a"))
    assert link is not None
    assert [agents.looks_since_heard("a") for _ in range(3)] == [1, 2, 3]
    agents.heard("a")
    assert agents.looks_since_heard("a") == 1
    agents.detach("a", link)
    assert agents.looks_since_heard("a") == 0


def test_leases_last_as_long_as_anything_is_heard_of_the_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it has nothing to say: its sign of life counts. Then jobs leave, and with the last one the agent."""
    now = [0.0]
    monkeypatch.setattr("gpuyard.runtime.agent.time", SimpleNamespace(monotonic=lambda: now[0]))
    agent, kinds = NodeAgent(AgentSettings("node0", 1, str(tmp_path), 0.1, lease_s=60.0)), messages()
    process = RankProcess.__new__(RankProcess)  # which nobody asks for anything here
    only = agent.ranks[RankName("job", 1, 0)] = RunningRank(process, kinds["Lease"](), 100, kinds["Progress"]())
    told = []
    for now[0] in (50.0, 109.0, 111.0):
        if now[0] == 50.0:
            agent._obey(kinds["ToAgent"]())
        agent._end_leases_if_alone()
        told.append(only.lease.stop)
    assert told == [False, False, True]
    assert not agent._over.is_set()
    agent.ranks.clear()
    agent._end_leases_if_alone()
    assert agent._over.is_set()


def test_an_agent_that_has_nothing_to_say_is_not_taken_for_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuyard.runtime.agent.SIGN_OF_LIFE_S", 0.001)
    agent = NodeAgent(AgentSettings("a", 1, str(tmp_path), 0.1, 60.0))
    world: Any = SimpleNamespace(attempts=None)  # which hears of nothing
    agents = AttachedAgents()
    link = agents.attach("a", agents.next_number("a"))
    assert link is not None
    assert [agents.looks_since_heard("a") for _ in range(3)] == [1, 2, 3]
    SchedulerService(world, agents, {})._hear("a", islice(agent._all_of(SimpleQueue()), 1), link)
    assert agents.looks_since_heard("a") == 1
