"""Programs of jobs find the emulated GPUs of their node."""

import os
import subprocess
import sys
from pathlib import Path

from gpuyard.core.grants import Grant, Part
from gpuyard.core.workload import Job
from gpuyard.runtime.emulated_gpus import EmulatedMachine, emulated_nodes
from gpuyard.runtime.launching import JobStarts
from gpuyard.runtime.records import Attempt, JobRecord
from gpuyard.traces import read_cluster

LOOK = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
count, name = ctypes.c_int(), ctypes.create_string_buffer(100)
assert not cuda.cuInit(0) and not cuda.cuDeviceGetCount(ctypes.byref(count)) and not cuda.cuDeviceGetName(name, 100, 0)
print(count.value, name.value.decode())
"""
CLUSTER = read_cluster("1x4:cpus=12,memory=250GB,type=K80")
NODE = CLUSTER.node_names[0]


def started(command: tuple[str, ...], folder: Path) -> dict[str, str]:
    """The environment of a job on the last two GPUs of the node."""
    starts = JobStarts(folder, 5.0, 1800.0, emulated_nodes(CLUSTER, folder, 5.0))
    grant = Grant("job", tuple(Part(NODE, gpu, 1000, 0.0, {"cpus": 3.0}) for gpu in (2, 3)))
    return starts.of(
        JobRecord(Job("job", 0.0, 2, "resnet50"), command), Attempt(1, grant, 0.0, 0.0, 0), NODE
    ).environment


def test_a_program_sees_the_gpus_that_its_job_has_at_the_speed_of_the_run(tmp_path: Path) -> None:
    given = started((sys.executable,), tmp_path)
    assert (given["GPUYARD_GPUS"], given["GPUYARD_SPEED"]) == ("4xK80", "5.0")
    machine = EmulatedMachine()
    environment = os.environ | given | machine.environment(given)
    found = subprocess.run([sys.executable, "-c", LOOK], env=environment, capture_output=True, text=True, check=False)
    machine.close()
    assert found.stdout == "2 Tesla K80\n", found.stderr


def test_the_shipped_trainer_and_unknown_types_need_none(tmp_path: Path) -> None:
    assert "GPUYARD_GPUS" not in started((), tmp_path)
    assert emulated_nodes(read_cluster("1x4:type=quantum"), tmp_path, 1.0) == {}
    assert EmulatedMachine().environment({}) == {}


def test_runs_beside_each_other_do_not_share_gpus(tmp_path: Path) -> None:
    here, there = (emulated_nodes(CLUSTER, tmp_path / name, 1.0)[NODE]["GPUYARD_NODE"] for name in "ab")
    assert here != there
