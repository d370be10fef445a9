"""What every script here begins and ends with."""

import json
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from gpuyard.emulation.torch.state import state

found: dict[str, Any] = {}
"""What this rank tells the test."""


def begin(backend: str | None = "nccl") -> int:
    """Join the group as a script of torchrun does; return the rank."""
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group(backend)
    return rank


def end() -> None:
    """Leave the group and write down what was found."""
    write()
    dist.destroy_process_group()


def write() -> None:
    """Write down what was found."""
    (Path(os.environ["RESULTS"]) / f"{dist.get_rank()}.json").write_text(json.dumps(found), encoding="utf-8")


def host_time() -> float:
    """Return how far this rank's host has come; where only GPUs take time, it moves when the host waits for one."""
    assert state.session is not None
    return state.session.clock.now()


class Stopwatch:
    """Milliseconds of GPU time, by events, from behind a kernel that hides what the host does meanwhile."""

    def __enter__(self) -> "Stopwatch":
        self.start, self.stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(int(0.1 * 1.38e9))  # a V100 at 1380 MHz: 100 ms
        self.start.record()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.record()
        torch.cuda.synchronize()
        self.milliseconds = self.start.elapsed_time(self.stop)
