"""A program in PyTorch, unchanged, in a group: its operations go through the gate."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.emulation.torch.conftest import Finished

Run = Callable[..., tuple[Any, str]]

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


@pytest.fixture
def run(forked: Callable[..., Finished], tmp_path: Path) -> Run:
    def run_gated(program: str, **settings: str) -> tuple[Any, str]:
        done = forked(program, shm=str(tmp_path), gate="test", **settings)
        return json.loads(done.stdout), done.stderr

    return run_gated


def test_operations_are_launches_and_reading_a_result_ends_a_job(run: Run) -> None:
    """A job: 10 products, 10 activations, a sum and a copy to the host, before the first of which x is filled.

    So 22 or 23 operations, with a drain after the 4th, 8th, 12th, 16th and 20th: the end of a job leaves nothing over.
    """
    shown, _ = run(PROGRAM, gate_sync_every="4")
    counts = {"launches": 1 + 5 * 22, "jobs": 5, "syncs": 5 * 5, "active": False}
    assert shown == {"pid": True, "used": True, "uuid": True, **counts}


def test_a_limit_on_memory_is_an_out_of_memory_error(run: Run) -> None:
    program = """
import json, torch
try:
    torch.empty(50 << 20, dtype=torch.uint8, device="cuda")
    print(json.dumps("allocated"))
except torch.OutOfMemoryError:
    print(json.dumps(torch.cuda.mem_get_info()[0]))
"""
    assert run(program, gate_memory=str(40 << 20))[0] == 40 << 20
    assert run(program)[0] == "allocated"


def test_a_program_that_cannot_be_gated_runs_and_says_so_once(run: Run) -> None:
    program = "import json, torch\nprint(json.dumps(torch.ones(3, device='cuda').sum().item()))"
    shown, said = run(program, gate_level="99")
    assert shown == pytest.approx(3.0)
    assert said.count("this program is not gated: GPUYARD_GATE_LEVEL") == 1


PASSES = """
import json, torch
from gpuyard.sharing.group import Group
model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(20))).cuda().eval()
x, launches = torch.randn(64, 256).cuda(), []
with torch.no_grad():
    for _ in range(8):
        model(x)
        torch.cuda.synchronize()
        launches.append(Group("test", watch=True).look(0).clients[0].launches)
print(json.dumps([after - before for before, after in zip(launches, launches[1:])]))
"""


def test_behind_the_gate_a_pass_that_the_host_is_too_slow_for_stays_many_launches(run: Run) -> None:
    """As one launch nobody could get in between; whoever wants that can still ask for it."""
    shown, _ = run(PASSES)
    assert set(shown) == {20}
    asked_for, _ = run(PASSES, granularity="pass")
    assert asked_for[-1] == 1


HELD = """
import json, torch
from gpuyard.sharing.group import Group
x = torch.ones(64, 64, device="cuda")
for _ in range(10):
    (x @ x).sum().item()
mine = Group("test", watch=True).look(0).clients[0]
print(json.dumps([mine.jobs_begun, mine.jobs_done, mine.active]))
"""


def test_a_job_goes_on_over_results_that_are_read_in_its_middle(run: Run) -> None:
    assert run(HELD, gate_hold="1")[0] == [1, 0, True]
    assert run(HELD)[0] == [10, 10, False]


@pytest.mark.parametrize("hold", ["-1", "soon", "1.5", "nan"])
def test_a_hold_that_is_none_is_said(hold: str, run: Run) -> None:
    program = "print(1)\nimport torch; torch.ones(3, device='cuda')"
    assert "GPUYARD_GATE_HOLD is no number of seconds from 0 to 1" in run(program, gate_hold=hold)[1]
