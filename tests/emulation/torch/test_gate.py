"""A program in PyTorch, unchanged, in a group: its operations go through the gate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

PROGRAM = """
import json, os, torch
from gpuyard.sharing.group import Group
x = torch.ones(64, 64, device="cuda")
for _ in range(5):
    y = x
    for _ in range(10):
        y = torch.relu(y @ x)
    y.sum().item()
group = Group("test", watch=True)
(gpu,) = group.gpus()
(mine,) = gpu.clients
about = {"pid": mine.pid == os.getpid(), "used": mine.memory_used > 0, "uuid": gpu.key.startswith("GPU-")}
counts = {"launches": mine.launches, "jobs": mine.jobs_done, "syncs": mine.syncs, "active": mine.active}
print(json.dumps({**about, **counts}))
"""


def run(folder: Path, program: str, **variables: str) -> tuple[Any, str]:
    surroundings = {
        **os.environ,
        "GPUYARD_GPUS": "V100",
        "GPUYARD_NODE": uuid4().hex,
        "GPUYARD_SHM": str(folder),
        "GPUYARD_GATE": "test",
        **variables,
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env=surroundings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_operations_are_launches_and_reading_a_result_ends_a_job(tmp_path: Path) -> None:
    """A job: 10 products, 10 activations, a sum and a copy to the host, before the first of which x is filled.

    So 22 or 23 operations, with a drain after the 4th, 8th, 12th, 16th and 20th: the end of a job leaves nothing over.
    """
    shown, _ = run(tmp_path, PROGRAM, GPUYARD_GATE_SYNC_EVERY="4")
    counts = {"launches": 1 + 5 * 22, "jobs": 5, "syncs": 5 * 5, "active": False}
    assert shown == {"pid": True, "used": True, "uuid": True, **counts}


def test_a_limit_on_memory_is_an_out_of_memory_error(tmp_path: Path) -> None:
    program = """
import json, torch
try:
    torch.empty(50 << 20, dtype=torch.uint8, device="cuda")
    print(json.dumps("allocated"))
except torch.OutOfMemoryError:
    print(json.dumps(torch.cuda.mem_get_info()[0]))
"""
    assert run(tmp_path, program, GPUYARD_GATE_MEMORY=str(40 << 20))[0] == 40 << 20
    assert run(tmp_path, program)[0] == "allocated"


def test_a_program_that_cannot_be_gated_runs_and_says_so_once(tmp_path: Path) -> None:
    program = "import json, torch\nprint(json.dumps(torch.ones(3, device='cuda').sum().item()))"
    shown, said = run(tmp_path, program, GPUYARD_GATE_LEVEL="99")
    assert shown == pytest.approx(3.0)
    assert said.count("this program is not gated: GPUYARD_GATE_LEVEL") == 1
