"""What a step of a script costs that a scheduler can stop, beyond the loop itself: CPU time, both in one process."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.limits import Figure

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
    return [Figure("client: a step with a lease", micros, "µs of CPU", most=20, portable=False)]
