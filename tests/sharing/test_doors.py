"""Plain programs in PyTorch behind the gate: a detector of torchvision beside a training script."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpuyard.core.errors import InputError
from gpuyard.sharing.group import ClientState, Group

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "sharing"
PICTURES = 7
SYNCHRONISATIONS = 19
"""Of FCOS in a picture: it asks for results in the middle, as detectors do."""


@pytest.fixture(autouse=True)
def shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUYARD_SHM", str(tmp_path))


def command(program: str, *options: str) -> Sequence[str]:
    emulate = [sys.executable, "-m", "gpuyard", "emulate", "--gpus", "V100", "--speed", "0.2", "--sharing", "fifo"]
    share = [sys.executable, "-m", "gpuyard", "share", "--group", "doors", *options]
    return [*emulate, "--quiet", "--", *share, "--", sys.executable, str(EXAMPLES / program)]


@contextmanager
def training() -> Iterator[int]:
    """Train meanwhile, and begin when steps are being made; yields the process to look for."""
    process = subprocess.Popen(command("train.py", "--sync-every", "4"), env=dict(os.environ))
    try:
        while not (clients := look()) or clients[0].syncs < 100:
            assert process.poll() is None, "it goes on until it is stopped"
            time.sleep(0.05)
        yield clients[0].pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def look() -> tuple[ClientState, ...]:
    """Everybody on the GPU, in the order in which they came."""
    try:
        gpus = Group("doors", watch=True).gpus()
    except InputError:  # nobody has come yet
        return ()
    return gpus[0].clients if gpus else ()


def test_a_detector_keeps_the_gpu_over_the_results_that_it_reads_within_a_picture() -> None:
    """The training gives way once for each picture at most, and not once for each result that is read."""
    with training() as pid:
        (before,) = look()
        urgent = command("detect.py", "--priority", "high", "--hold", "1")
        done = subprocess.run(urgent, capture_output=True, text=True, check=False)
        (after,) = look()
    assert done.returncode == 0, done.stderr
    assert "a picture takes" in done.stdout
    assert before.pid == after.pid == pid
    assert 1 <= after.preemptions - before.preemptions <= PICTURES < SYNCHRONISATIONS
    assert after.waited_ns > before.waited_ns
    assert after.longest_queue == 4
