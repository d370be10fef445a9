"""Jobs on the machine's own GPUs. Here these are emulated ones, which the loader finds instead of a real driver's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuyard.cli import main
from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.core.grants import Grant, Part
from gpuyard.core.workload import Job
from gpuyard.native import folder
from gpuyard.runtime.launching import JobStarts
from gpuyard.runtime.machine_gpus import MachineGpu, cluster_of_machine, gpus_of_machine, gpus_of_nodes
from gpuyard.runtime.new_jobs import words
from gpuyard.runtime.records import Attempt, JobRecord
from gpuyard.traces import read_cluster

LOOK = """\
import ctypes, json, os
cuda, count, name = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.create_string_buffer(100)
assert not cuda.cuInit(0) and not cuda.cuDeviceGetCount(ctypes.byref(count)) and not cuda.cuDeviceGetName(name, 100, 0)
names = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "GPUYARD_SPEED")
print(json.dumps([count.value, name.value.decode(), *map(os.environ.get, names)]))
"""
JOBS = """\
gpuyard: workload/1
jobs:
- {job_id: two, arrival_s: 0, gpus: 2, model: generic, iterations: 1, command: "PYTHON look.py"}
- {job_id: other, arrival_s: 0, gpus: 1, gpu_types: A100, model: generic, iterations: 1, command: "PYTHON look.py"}
"""
FOUR = [
    MachineGpu("0", "V100", 34.0),
    MachineGpu("1", "A100", 42.0),
    *(MachineGpu(each, "V100", 34.0) for each in "23"),
]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with three GPUs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder()))
    monkeypatch.setenv("GPUYARD_GPUS", "2xV100+A100")
    monkeypatch.setenv("GPUYARD_NODE", f"machine-{os.getpid()}")


def run(*options: str, jobs: str = JOBS) -> list[str]:
    """The words of a command that runs these jobs on real GPUs."""
    Path("look.py").write_text(LOOK)
    Path("jobs.yaml").write_text(jobs.replace("PYTHON", sys.executable))
    return ["run", "jobs.yaml", "--world", "gpu", "--state", "state", "--quiet", "--format", "json", *options]


@pytest.mark.usefixtures("machine")
def test_each_job_sees_the_gpus_of_the_machine_that_it_has() -> None:
    command = [sys.executable, "-m", "gpuyard", *run("--round", "1s")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [(row["world"], row["unfinished"]) for row in json.loads(done.stdout)] == [("gpu", 0)]
    found = [json.loads(Path(f"state/jobs/{job}/log").read_text()) for job in ("two", "other")]
    assert found == [
        [2, "Tesla V100-PCIE-32GB", "0,1", "PCI_BUS_ID", None],
        [1, "NVIDIA A100-SXM4-40GB", "2", "PCI_BUS_ID", None],
    ]


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--cluster", "1x4:type=K80"), "has 4 GPUs of type K80, and this machine 2 of type V100, 1 of type A100"),
        (("--speed", "60"), "field speed: 60.0 must be 1 in the gpu world"),
        (("--on", "ray"), "'gpu' is for this machine only"),
        ((), "command of job bare: is missing, and a real GPU trains no model by itself"),
    ],
)
def test_what_the_machine_cannot_do_is_one_line(
    options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = "" if options else "- {job_id: bare, arrival_s: 0, gpus: 1, model: resnet50, duration_s: 9}\n"
    with pytest.raises(SystemExit) as ended:
        main(run(*options, jobs=JOBS + bare))
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert said in line
    assert not Path("state").exists()


@pytest.mark.usefixtures("machine")
def test_gpus_are_called_as_the_environment_calls_them() -> None:
    every = gpus_of_machine()
    assert [(each.visible_as, each.gpu_type) for each in every] == [("0", "V100"), ("1", "V100"), ("2", "A100")]
    some = gpus_of_machine({**os.environ, "CUDA_VISIBLE_DEVICES": "2, 0,-1"})
    assert [(each.visible_as, each.gpu_type) for each in some] == [("2", "A100"), ("0", "V100")]
    assert [round(each.memory_gb) for each in some] == [43, 34]


def test_a_machine_is_a_node_for_each_type_and_all_its_gpus_are_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuyard.runtime.machine_gpus.usable_cpus", lambda: list(range(16)))
    cluster = read_cluster(cluster_of_machine(FOUR))
    kinds = [cluster.kinds[kind] for kind in cluster.node_kind]
    assert [(kind.gpus, kind.cpus, kind.gpu_type, kind.gpu_memory_gb) for kind in kinds] == [
        (3, 12, "V100", 34.0),
        (1, 4, "A100", 42.0),
    ]
    assert gpus_of_nodes(cluster, FOUR) == {"node0": ["0", "2", "3"], "node1": ["1"]}
    assert gpus_of_nodes(read_cluster("1x1+1x2"), FOUR) == {"node0": ["0"], "node1": ["2", "3"]}
    with pytest.raises(InputError, match="has 4 GPUs of type V100, and this machine 3 of type V100, 1 of type A100"):
        gpus_of_nodes(Cluster.parse("2x2"), FOUR)


def test_processes_on_a_second_node_of_the_machine_do_not_meet_those_of_the_first(tmp_path: Path) -> None:
    starts = JobStarts(tmp_path, 1.0, 1800.0, gpus={"a": ["GPU-5", "GPU-6"], "b": ["GPU-7"]})
    attempt = Attempt(1, Grant("j", (Part("a", 1), Part("b", 0))), 0.0, 0.0, 0)
    record = JobRecord(Job("j", 0.0, 2, "generic", command="python x.py"), ("python", "x.py"))
    found = [starts.of(record, attempt, node).environment for node in ("a", "b")]
    for name in ("CUDA_VISIBLE_DEVICES", "SYNERGY_GPUS_ALLOCATED"):
        assert [each[name] for each in found] == ["GPU-6", "GPU-7"]


def test_a_job_that_names_only_a_model_may_be_refused() -> None:
    job = Job("bare", 0.0, 1, "resnet50", iterations=5.0)
    assert words(job) == ()
    with pytest.raises(InputError, match="is missing"):
        words(job, needed=True)
