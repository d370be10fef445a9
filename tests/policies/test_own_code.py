"""Whatever goes wrong in a policy of the user's own is one line that names the user's file and row."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.builders import cluster, job, run

from gpuyard.core.errors import InputError
from gpuyard.policies.resolve import resolve
from gpuyard.simulation.options import Options

JOBS = [job(number) for number in range(3)]

ORDER = """import sys
import numpy as np
from gpuyard.policies.plan import Keys

def mine(snapshot):
    count = len(snapshot.active)
    {body}
"""
ALLOCATION = """import sys
from gpuyard.policies.allocate.perjob import PerJob

class Mine(PerJob):
    def amounts(self, ladder, share):
        {body}
"""
PLACEMENT = """from gpuyard.policies.placement.interface import Placement

class Near(Placement):
    def score(self, room):
        {body}
"""


def refusal(tmp_path: Path, text: str, policy: str, **options: str) -> str:
    file = tmp_path / "own.py"
    file.write_text(text)
    named = {name: value.replace("FILE", str(file)) for name, value in options.items()}
    with pytest.raises(InputError) as caught:
        run(cluster(), JOBS, resolve(policy.replace("FILE", str(file)), **named), Options())  # type: ignore[arg-type]
    return str(caught.value).replace(str(file), "FILE")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("sys.exit(0)", "FILE, row 7, field policy: 'mine+tune' raised SystemExit: 0, in mine: sys.exit(0)"),
        ("raise KeyError('x')", "FILE, row 7, field policy: 'mine+tune' raised KeyError: 'x'"),
        ("return np.ones(2) @ np.ones(3)", "FILE, row 7, field policy: 'mine+tune' raised ValueError: matmul"),
        ("return ['a'] * count", "FILE, row 5, field policy: 'mine+tune' its order must return one key"),
        ("return np.array(['a'] * count)", "of shape (3,) of numbers, not an array of shape (3,) of <U1"),
        ("return np.array([None] * count)", "of shape (3,) of numbers, not an array of shape (3,) of object"),
        ("return np.ones(count) * 1j", "of shape (3,) of numbers, not an array of shape (3,) of complex128"),
        ("return np.ones((count, 2))", "of shape (3,) of numbers, not an array of shape (3, 2) of float64"),
        ("return Keys(np.ones(count), 'fast')", "one running_rate for each active job, an array of shape (3,)"),
        ("return Keys(np.ones(count), None)", "one running_rate for each active job"),
        ("return Keys(np.ones(count), 0.0, np.ones(count + 1))", "one waiting_rate for each active job"),
        ("return Keys(np.ones(count), np.ones((count, 1)))", "not an array of shape (3, 1) of float64"),
        ("return Keys(np.ones(count), np.full(count, np.nan))", "a running_rate that is not finite"),
        ("return Keys(np.ones(count), 0.0, np.inf)", "a waiting_rate that is not finite"),
    ],
)
def test_an_order(tmp_path: Path, body: str, says: str) -> None:
    assert says in refusal(tmp_path, ORDER.format(body=body), "FILE:mine+tune")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("sys.exit()", "FILE, row 6, field policy: 'fifo+Mine' raised SystemExit: , in amounts: sys.exit()"),
        ("return share / 'a'", "FILE, row 6, field policy: 'fifo+Mine' raised"),
        ("return 'much'", "FILE, row 5, field policy: 'Mine' its amounts must be 3 finite numbers, 0 or more"),
        ("return share[:2]", "its amounts must be 3 finite numbers"),
        ("return -share", "its amounts must be 3 finite numbers"),
        ("return share * float('nan')", "its amounts must be 3 finite numbers"),
        ("return None", "0 or more, not None"),
    ],
)
def test_an_allocation(tmp_path: Path, body: str, says: str) -> None:
    assert says in refusal(tmp_path, ALLOCATION.format(body=body), "fifo+FILE:Mine")


def test_what_an_allocation_expects(tmp_path: Path) -> None:
    text = ALLOCATION.format(body="return share") + "    def expected_speed(self, snapshot):\n        return [1.0]\n"
    said = refusal(tmp_path, text, "fifo+FILE:Mine")
    assert "'fifo+Mine' its expected_speed must return an array of shape (3,) of numbers, not list" in said


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return float('nan')", "FILE, row 4, field policy: 'Near' its score of node node0 must be a number, not nan"),
        ("return 'near'", "must be a number, not 'near'"),
        ("return room.distance", "FILE, row 5, field policy: 'fifo+tune' raised AttributeError"),
    ],
)
def test_a_placement(tmp_path: Path, body: str, says: str) -> None:
    assert says in refusal(tmp_path, PLACEMENT.format(body=body), "fifo+tune", placement="FILE:Near")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "x = 1\nimport sys\nsys.exit(0)",
            "FILE, row 3, field policy: the policy file cannot be loaded: SystemExit: 0",
        ),
        ("x = 1\n1 / 0", "FILE, row 2, field policy: the policy file cannot be loaded: ZeroDivisionError"),
        ("x = 1\ndef mine(:", "FILE, row 2, field policy: the policy file cannot be loaded: SyntaxError"),
        (
            "class mine:\n    def __init__(self):\n        exit(3)\n    def plan(self): pass",
            "FILE, row 3, field policy: 'mine' cannot be used: SystemExit: 3",
        ),
    ],
)
def test_a_file_that_stops_while_it_is_loaded(tmp_path: Path, text: str, says: str) -> None:
    assert says in refusal(tmp_path, text, "FILE:mine")


def test_a_placement_is_named_by_its_own_setting(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="field placement: 'nope' is not a placement"):
        resolve("fifo+tune", placement="nope")
    assert "FILE, field placement: 'Far'" in refusal(tmp_path, "x = 1", "fifo+tune", placement="FILE:Far")


def test_sys_exit_in_a_policy_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(ORDER.format(body="sys.exit(0)"))
    done = subprocess.run(
        [sys.executable, "-m", "gpuyard", "simulate", "--policy", "own.py:mine", "--jobs", "20", "--out", "runs"],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    assert done.returncode == 2
    assert "own.py, row 7, field policy: 'mine+tune' raised SystemExit: 0" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "runs").exists()
