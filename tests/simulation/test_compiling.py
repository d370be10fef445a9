"""What runs need is compiled ahead, by shipped parts alone."""

import ctypes
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders import cluster, job, workload

from gpuyard.core.kernel import CACHE, NOTICE
from gpuyard.policies.allocate.perjob import PerJob
from gpuyard.policies.allocate.tune import Tune
from gpuyard.policies.plan import Keys, Plan
from gpuyard.policies.policy import Policy
from gpuyard.policies.snapshot import Snapshot
from gpuyard.simulation.compiling import (
    compile_ahead,
    interrupts_found_again,
    load_kernels,
    shipped_parts,
    shipped_policies,
)
from gpuyard.simulation.engine import simulate_cluster
from gpuyard.simulation.options import Options

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _as_loud_as_before() -> Iterator[None]:
    before = NOTICE.quiet
    yield
    NOTICE.quiet = before


SEEN_LATE = """
import json, sys, tempfile
from pathlib import Path
from gpuyard.simulation.opening import find_policy
from gpuyard.simulation.compiling import load_kernels
from tests.simulation.small_runs import CORRECTED, POLICIES, PUBLISHED, write_runs

def forms():
    found = {}
    for module in [module for name, module in sys.modules.items() if name.startswith("gpuyard.")]:
        for each in vars(module).values():
            if hasattr(each, "nopython_signatures"):
                found[f"{each.py_func.__module__}.{each.py_func.__name__}"] = [str(s) for s in each.nopython_signatures]
    return found

for policy in POLICIES:
    for options in (CORRECTED, PUBLISHED):
        load_kernels(find_policy(policy, options), faithful=options.faithful)
ahead = forms()
with tempfile.TemporaryDirectory() as folder:
    write_runs(Path(folder))
late = {name: form for name, form in forms().items() if form != ahead.get(name)}
print(json.dumps([len(ahead), sorted(late)]))
"""


def test_runs_use_no_kernel_that_was_not_loaded_ahead() -> None:
    done = subprocess.run([sys.executable, "-c", SEEN_LATE], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kernels, late = json.loads(done.stdout)
    assert kernels > 10
    assert late == []


def test_a_user_s_order_sees_no_jobs_but_the_user_s() -> None:
    seen: list[tuple[int, list[float]]] = []

    def mine(snapshot: Snapshot) -> Keys:
        seen.append((snapshot.cluster.total_gpus, snapshot.gpus.tolist()))
        return Keys(snapshot.arrival_s)

    simulate_cluster(cluster("3x8"), workload(job(7, gpus=5)), Policy("mine+tune", mine, Tune()))
    assert seen
    assert all(look == (24, [5.0]) for look in seen)


class Refusing(PerJob):
    """An allocation of a user that may not be called."""

    def plan(self, snapshot: Snapshot, order: object) -> Plan:
        raise AssertionError

    def amounts(self, ladder: object, share: object) -> list[float]:
        raise AssertionError


def refusing(snapshot: Snapshot) -> Keys:
    raise AssertionError


def test_nothing_of_the_user_s_is_called() -> None:
    load_kernels(Policy("mine", refusing, Refusing()))
    load_kernels(Policy("mine", refusing, Tune()))


def test_shipped_parts_stand_for_themselves() -> None:
    assert all(shipped_parts(policy) == policy for policy, _ in shipped_policies())


def test_a_policy_that_does_not_exist_is_left_to_its_run() -> None:
    compile_ahead([Options(policy="no-such+tune")], quiet=True)


def test_ahead_means_ready() -> None:
    compile_ahead([Options(policy="fifo+tune")])
    assert CACHE is not None
    assert CACHE.has("order.fifo.fifo+Tune")


@pytest.mark.parametrize("quiet", [True, False])
def test_quiet_holds_for_all_that_follows(quiet: bool) -> None:
    compile_ahead([], quiet=quiet)
    assert NOTICE.quiet is quiet


def interrupted_where_c_calls_back(*, fails: bool) -> None:
    """As LLVM does while it compiles: Python can only report the interrupt, and goes on."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    with interrupts_found_again():
        ctypes.CFUNCTYPE(None)(interrupted)()
        if fails:
            raise RuntimeError("no compiled object yet")


@pytest.mark.parametrize("fails", [True, False], ids=["which then fails", "which goes on"])
def test_ctrl_c_that_meets_the_compiler_stops_it_without_a_word(fails: bool, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted_where_c_calls_back(fails=fails)
    assert capfd.readouterr().err == ""


def test_a_failure_of_the_compiler_is_told() -> None:
    with pytest.raises(RuntimeError, match="no compiled object yet"), interrupts_found_again():
        raise RuntimeError("no compiled object yet")
