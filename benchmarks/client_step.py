"""What a step costs that a scheduler can stop, or whose batch size may change: CPU time, beyond the loop itself."""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.limits import Figure
from gpuyard.client.shared_batch import SOCKET, TASK, SharedBatch
from gpuyard.sharing.task_daemon import TaskDaemon
from gpuyard.sharing.task_tuning import NodeTuning, TaskPlace

STEPS = 200_000
SCRIPT = f"""\
import collections, time
from gpuyard.client import steps

def spent(batches):
    began = time.process_time()
    collections.deque(batches, 0)
    return time.process_time() - began

plain, leased = range({STEPS}), steps(range({STEPS}))
assert leased is not plain
bare = min(spent(iter(plain)) for _ in range(5))
print((min(spent(leased) for _ in range(5)) - bare) / {STEPS} * 1e6)
"""
JOBS = """\
gpuyard: workload/1
jobs:
- {{job_id: steps, arrival_s: 0, gpus: 1, model: generic, iterations: {steps}, command: "{python} script.py"}}
"""


def run() -> list[Figure]:
    """Let a job of a real run measure itself."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "script.py").write_text(SCRIPT)
        (folder / "jobs.yaml").write_text(JOBS.format(python=shlex.quote(sys.executable), steps=6 * STEPS))
        words = ["run", "jobs.yaml", "--cluster", "1x1:cpus=3", "--policy", "fifo+proportional", "--state", "state"]
        subprocess.run(
            [sys.executable, "-m", "gpuyard", *words, "--quiet"], cwd=folder, check=True, capture_output=True
        )
        micros = float((folder / "state" / "jobs" / "steps" / "log").read_text())
    return [
        Figure("client: a step with a lease", micros, "µs of CPU", most=20, portable=False),
        Figure("client: a step whose batch size may change", boundary(), "µs of CPU", most=50, portable=False),
        Figure("client: the same without a daemon", unasked(), "µs of CPU", most=1, portable=False),
    ]


def boundary() -> float:
    """A boundary while a daemon asks for measurements, in time of the training thread."""
    with TemporaryDirectory(dir="/tmp") as folder:
        tuning = NodeTuning({0: 16.0}, lambda: "round")
        with TaskDaemon(Path(folder) / "tasks.sock", tuning, lambda _name: TaskPlace(0, 4.0)) as daemon:
            thread = threading.Thread(target=daemon.run)
            thread.start()
            batch = SharedBatch(64, environment={SOCKET: f"{folder}/tasks.sock", TASK: "task"})
            while not batch.asked:
                time.sleep(0.01)
                batch.step()
            found = spent(batch.step)
            batch.close()
            daemon.stop()
            thread.join()
    return found


def unasked() -> float:
    """A boundary where there is nobody."""
    return spent(SharedBatch(64, environment={}).step)


def spent(step: Callable[[], object]) -> float:
    """Microseconds of this thread for a call."""
    times = []
    for _ in range(5):
        began = time.thread_time()
        for _ in range(STEPS):
            step()
        times.append((time.thread_time() - began) / STEPS * 1e6)
    return min(times)
