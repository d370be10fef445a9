"""Experiments of sharing on the machine's own GPUs. Here these are emulated ones that the loader finds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuyard.core.errors import InputError
from gpuyard.core.sharing import KernelSequence, SharedJob, SharingExperiment
from gpuyard.native import folder
from gpuyard.results import load_run
from gpuyard.sharing.experiment import share_in_processes
from gpuyard.sharing.machine import MachineGround, find_ground

EXPERIMENT = """
gpuyard: sharing/1
seconds: 0.2
jobs:
  - {name: background, kernels: 100, kernel_ms: 0.3, sync_every: 4, least_jobs: 6}
  - {name: urgent, kernels: 30, kernel_ms: 0.1, priority: 1, think_ms: 20, least_jobs: 6}
"""
CROWDED = """
gpuyard: sharing/1
seconds: 0.2
jobs:
  - {name: background, kernels: 100, kernel_ms: 0.3, sync_every: 4, least_jobs: 6}
  - {name: urgent, kernels: 30, kernel_ms: 1, priority: 1, think_ms: 3, least_jobs: 40}
"""
"""The background job fits into no pause of the urgent one, which goes on for more than a second: they meet, wherever a
busy machine makes them begin."""


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two GPUs, in whose driver kernels are run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder()))
    monkeypatch.setenv("GPUYARD_GPUS", "V100+A100")
    monkeypatch.setenv("GPUYARD_SHARING", "fifo")
    monkeypatch.setenv("GPUYARD_NODE", f"machine-{os.getpid()}")


def share(*options: str, experiment: str = EXPERIMENT) -> subprocess.CompletedProcess[str]:
    Path("two.yaml").write_text(experiment)
    command = [sys.executable, "-m", "gpuyard", "share", "two.yaml", "--world", "gpu", "--no-figures", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_processes_share_the_gpu_that_the_loader_finds() -> None:
    done = share("--format", "json", experiment=CROWDED)
    assert done.returncode == 0, done.stderr
    rows = {row["job"]: row for row in json.loads(done.stdout)}
    assert rows["urgent"]["preemptions"] == 0
    assert rows["background"]["preemptions"] > 0
    run = load_run("runs/share-two-priority-seed1")
    assert (run.info["world"], run.info["gpus"]) == ("gpu", "Tesla V100-PCIE-32GB")
    assert run.info["sharing"] == "the driver's own"
    queues = dict(zip(run["processes"]["job"], run["processes"]["longest_queue"], strict=True))
    assert queues == {"background": 4, "urgent": 30}


def test_a_job_takes_at_least_what_its_kernels_are_to_take() -> None:
    """What was measured is given here: a host that is held up would measure too much, and kernels would be shorter."""
    job = SharedJob("one", KernelSequence((1e-3, 3e-3)), least_jobs=3)
    ground = MachineGround({0: "any"}, {0: 5000})
    (record,) = share_in_processes(SharingExperiment((job,), 1e-3), ground)
    assert len(record.rows) == 3
    assert all(row["finish_s"] - row["start_s"] >= 3.99e-3 for row in record.rows)


def test_what_a_kernel_takes_anyway_is_measured_and_taken_off() -> None:
    ground = find_ground([1, 0])
    assert ground.names == {1: "NVIDIA A100-SXM4-40GB", 0: "Tesla V100-PCIE-32GB"}
    # The shortest time of a kernel, and two looks at a timer that changes every microsecond. A host that is held up
    # while it launches can only add to it.
    assert all(each >= 5000 for each in ground.overhead_ns.values())
    code = MachineGround({0: "one"}, {0: 5000}).code([1e-4, 3e-4], 0)
    assert code.nanoseconds == (95_000, 295_000)


def test_a_gpu_that_the_machine_does_not_have() -> None:
    with pytest.raises(InputError, match="field gpu: 2 is not one of this machine's 2 GPUs"):
        find_ground([0, 2])


def refused(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2
    *others, line = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert all(each.startswith("gpuyard: libcuda: ") for each in others)  # the driver's own words
    assert not Path("runs").exists() or not list(Path("runs").iterdir())
    return line


def test_without_a_driver_it_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert "field world: 'gpu' needs a CUDA driver and a GPU" in refused(share())


def test_with_a_driver_and_no_gpu_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUYARD_GPUS")
    assert "cuInit failed with code 100" in refused(share("--quiet"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--speed", "0.5"), "field speed: 0.5 must be 1 in the gpu world"),
        (("--sharing", "fifo"), "field sharing: 'fifo' is not for us to choose"),
    ],
)
def test_what_a_real_gpu_cannot_do_is_refused(options: tuple[str, ...], said: str) -> None:
    assert said in refused(share(*options))


def test_an_experiment_may_name_several_gpus() -> None:
    two = EXPERIMENT.replace("priority: 1,", "priority: 1, gpu: 1,")
    done = share("--format", "json", experiment=two)
    assert done.returncode == 0, done.stderr
    assert all(row["preemptions"] == 0 for row in json.loads(done.stdout))
    assert load_run("runs/share-two-priority-seed1").info["gpus"] == "Tesla V100-PCIE-32GB, NVIDIA A100-SXM4-40GB"
