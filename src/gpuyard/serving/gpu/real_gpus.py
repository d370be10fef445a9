"""What real GPUs need before anything is served on them: CUDA that works and, for slices, CUDA MPS.

A program that finds no MPS daemon runs as if there were none, on all of its GPU: slices would be none, and nobody would
say so.
"""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from errno import EPROTOTYPE
from pathlib import Path

from gpuyard.core.errors import InputError
from gpuyard.core.grants import WHOLE
from gpuyard.policies.partition.deployment import Deployment

PIPES_VARIABLE, PIPES = "CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"  # noqa: S108  where NVIDIA has them
CONTROL = "control"
COUNT_GPUS = "import torch; torch.cuda.init(); print(torch.cuda.device_count())"
"""For a process of its own: whoever has once spoken to a GPU keeps memory of it."""
PATIENCE_S = 120.0


def check_gpus(
    deployment: Deployment,
    *,
    replan: bool,
    count: Callable[[], int] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Raise InputError if a deployment, or with `replan` one that follows it, cannot be served on this machine."""
    wanted = int(deployment.cluster.node_gpus.sum())
    there = (count or usable_gpus)()
    if there < wanted:
        rule = f"has {there} GPUs that CUDA can use, and the plan is for {wanted}"
        raise InputError(rule, field="world", value="gpu")
    shares = [part.thousandths for part in deployment.plan.slices if part.turns]
    if replan or any(share < WHOLE for share in shares):
        pipe = Path(environment.get(PIPES_VARIABLE) or PIPES) / CONTROL
        missing = missing_daemon(pipe)
        if missing:
            hint = "Start it with: nvidia-cuda-mps-control -d"
            if all(share == WHOLE for share in shares):
                hint += "; or serve whole GPUs only, with --no-replan"
            rule = f"slices need the control daemon of CUDA MPS, and {missing}"
            raise InputError(rule, field=PIPES_VARIABLE, value=str(pipe.parent), hint=hint)


def usable_gpus() -> int:
    """How many GPUs torch can use; raises InputError if it cannot use any."""
    try:
        found = subprocess.run(  # noqa: S603  our own interpreter and text
            [sys.executable, "-c", COUNT_GPUS], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise _no_cuda(f"CUDA does not answer within {PATIENCE_S:g} s") from None
    if found.returncode:
        why = (found.stderr.strip().splitlines() or [f"exit code {found.returncode}"])[-1]
        raise _no_cuda(f"CUDA cannot be used: {why}")
    return int(found.stdout)


def _no_cuda(rule: str) -> InputError:
    return InputError(rule, field="world", value="gpu", hint="Without a GPU: --world emulated, or torch-cpu")


def missing_daemon(pipe: Path) -> str:
    """Why the control daemon of MPS cannot be reached; empty if it can.

    It listens on a socket, or on a named pipe in older versions. Either may be left over from one that has died.
    """
    try:
        mode = pipe.stat().st_mode
        if stat.S_ISFIFO(mode):
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))  # fails if nobody reads
            return ""
        with socket.socket(socket.AF_UNIX) as ours:
            ours.connect(str(pipe))
    except FileNotFoundError:
        return f"{pipe} is not there"
    except OSError as error:
        # Somebody listens, with another kind of socket.
        return "" if error.errno == EPROTOTYPE else f"nobody answers at {pipe}: {error.strerror or error}"
    return ""
