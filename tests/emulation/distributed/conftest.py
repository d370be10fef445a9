"""Programs of several processes; each rank leaves what it found in a file."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

SCRIPTS = Path(__file__).parent / "scripts"
ROOT = Path(__file__).resolve().parents[3]

Results = list[dict[str, Any]]
Launcher = Callable[..., Results]


def environment(folder: Path, **settings: str) -> dict[str, str]:
    """Two emulated GPUs that nobody else uses, and where results go."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUYARD_", "CUDA_", "PYTEST_"))}
    chosen = {"gpus": "2xV100", "node": f"test-{uuid4().hex[:12]}"} | settings
    prefixed = {f"GPUYARD_{name.upper()}": value for name, value in chosen.items()}
    return kept | prefixed | {"RESULTS": str(folder), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def run(folder: Path, *command: str, **settings: str) -> Results:
    """Run a Python program of two ranks; returns what each of them left."""
    process = subprocess.Popen(
        [sys.executable, *command],
        env=environment(folder, **settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=600)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its ranks, too
        output, _ = process.communicate()
    files = [folder / f"{rank}.json" for rank in range(2)]
    assert all(file.exists() for file in files), output[-6000:]
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


@pytest.fixture(scope="session")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    """Run scripts on two ranks of torchrun, once for all tests and test processes that ask for them."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def launcher(backend: str, *scripts: str, **settings: str) -> Results:
        folder = shared / "-".join(scripts)
        folder.mkdir(exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = folder / "results.json"
            if not done.exists():
                torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
                found = run(folder, *torchrun, str(SCRIPTS / "run.py"), backend, *scripts, **settings)
                done.write_text(json.dumps(found), encoding="utf-8")
            results: Results = json.loads(done.read_text(encoding="utf-8"))
            return results

    return launcher


@pytest.fixture(scope="session")
def timed(launch: Launcher) -> Results:
    """What ranks found where only GPUs take time, with tensors that have no numbers."""
    return launch("nccl", "collectives", "again", "training", granularity="op", clock="device")


@pytest.fixture(scope="session")
def computed(launch: Launcher) -> Results:
    """What ranks found with everything computed for real."""
    return launch("", "gradients", "mistakes", compute="1", clock="virtual")
