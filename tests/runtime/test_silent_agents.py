"""An agent that is there and says nothing: it is ended with all that it started, and its jobs go on."""

import os
import signal
import threading
import time
from pathlib import Path

from gpuyard.client.checkpoints import Checkpoints
from gpuyard.core.workload import Job
from gpuyard.policies.resolve import resolve
from gpuyard.profiles import load_zoo
from gpuyard.runtime.launching import job_folder
from gpuyard.runtime.new_jobs import NewJob
from gpuyard.runtime.process_ids import is_still
from gpuyard.runtime.real_cluster import RunRules
from gpuyard.runtime.records import JobState
from gpuyard.runtime.scheduler import RunSettings, Scheduler
from gpuyard.runtime.service import AttachedAgents
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
