"""A forked process says what is wrong, instead of waiting for threads that it does not have."""

import subprocess
import sys

PROGRAM = """
import os, signal, sys
import gpuyard
from gpuyard import Job, Workload
import gpuyard.simulation.engine

jobs = Workload.from_jobs([Job("a", 0.0, 1, "generic", duration_s=60.0)])
if "{before}" == "simulated":
    gpuyard.simulate("1x1", jobs, "fifo+proportional")
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0)
signal.alarm(300)  # where nothing is said, it would never end
try:
    print(gpuyard.simulate("1x1", jobs, "fifo+proportional").summary["mean_jct_h"] * 3600, flush=True)
except gpuyard.GpuyardError as error:
    print(error, flush=True)
os._exit(0)
"""


def told(before: str) -> str:
    program = PROGRAM.format(before=before)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_process_forked_after_a_simulation_says_how_to_start_processes() -> None:
    assert "forkserver" in told("simulated")


def test_a_process_forked_before_any_simulates() -> None:
    assert told("nothing") == "60.0"
