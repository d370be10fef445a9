"""Two programs on the emulated driver, which does the work by itself and in time: who waited for whom, by counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from tests.native.gate.driver.programs import PREAMBLE, environment

from gpuyard.native import find

SETTING_UP = (
    PREAMBLE
    + '''
PTX = b""".version 8.0
.target sm_70
.address_size 64
.visible .entry work() { ret; }
"""
module, function = ctypes.c_void_p(), ctypes.c_void_p()
check(cuda.cuModuleLoadData(ctypes.byref(module), PTX))
check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"work"))
'''
)

WORKING = (
    SETTING_UP
    + """
print("ready", flush=True)
jobs, launches = map(int, sys.stdin.readline().split())
for _ in range(jobs):
    for _ in range(launches):
        check(launch(function=function))
    check(cuda.cuCtxSynchronize())
state = mine()
show(launches=state.launches, jobs=state.jobs_done, preemptions=state.preemptions, syncs=state.syncs,
     queue=state.longest_queue)
"""
)


@pytest.fixture(scope="session")
def emulated() -> Path:
    """The folder of the emulated driver."""
    return find("libcuda.so.1").parent


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> None:
    """An emulated machine of its own, with a kernel that takes 0.3 ms."""
    monkeypatch.setenv("GPUYARD_GPUS", "V100")
    monkeypatch.setenv("GPUYARD_NODE", uuid4().hex)
    monkeypatch.setenv("GPUYARD_SHARING", "fifo")
    monkeypatch.setenv("GPUYARD_KERNEL_TIMES", "work=300")


class Program:
    """A program that works when told to."""

    def __init__(self, emulated: Path, **gate: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKING],
            env=environment(emulated, **gate),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def work(self, jobs: int, launches: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{jobs} {launches}\n")
        self._process.stdin.flush()

    def result(self) -> dict[str, int]:
        shown, _ = self._process.communicate(timeout=120)
        found: dict[str, int] = json.loads(shown)
        return found

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.mark.usefixtures("node")
def test_a_background_program_gives_way_to_an_urgent_one_and_both_finish(emulated: Path) -> None:
    low, high = Program(emulated, sync_every=4), Program(emulated, level=1)
    low.work(3, 200)
    high.work(10, 30)
    urgent, background = high.result(), low.result()
    assert urgent == {"launches": 300, "jobs": 10, "preemptions": 0, "syncs": 0, "queue": 30}
    assert (background["launches"], background["jobs"]) == (600, 3)
    assert background["preemptions"] > 0
    assert background["queue"] == 4
    assert background["syncs"] >= 600 // 4 - background["preemptions"]


@pytest.mark.usefixtures("node")
def test_programs_of_one_level_do_not_wait_for_each_other(emulated: Path) -> None:
    programs = [Program(emulated, level=2, window=8) for _ in range(2)]
    for program in programs:
        program.work(2, 40)
    for program in programs:
        found = program.result()
        assert (found["launches"], found["preemptions"]) == (80, 0)
        assert found["queue"] <= 16


@pytest.mark.usefixtures("node")
def test_the_others_go_on_when_the_urgent_program_is_killed_with_work_queued(emulated: Path) -> None:
    low, high = Program(emulated, sync_every=4), Program(emulated, level=1)
    high.work(1, 100_000)
    low.work(2, 20)
    high.kill()
    assert low.result()["jobs"] == 2


@pytest.mark.usefixtures("node")
def test_the_others_go_on_when_the_background_program_is_killed(emulated: Path) -> None:
    low, high = Program(emulated, sync_every=4), Program(emulated, level=1)
    low.work(1, 100_000)
    low.kill()
    high.work(2, 20)
    assert high.result() == {"launches": 40, "jobs": 2, "preemptions": 0, "syncs": 0, "queue": 20}


USED_AGAIN = """
def end_of_stream(number):
    stream = new_stream()
    for _ in range(3): check(launch(stream, function))
    if number % 2: check(cuda.cuStreamSynchronize(stream))
    check(cuda.cuStreamDestroy_v2(stream))
    if not number % 2: check(cuda.cuCtxSynchronize())  # with what the stream had left
    return stream.value

def end_of_context(number):
    other, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuCtxCreate_v2(ctypes.byref(other), 0, 0))
    check(cuda.cuModuleLoadData(ctypes.byref(module), PTX))
    check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"work"))
    for _ in range(3): check(launch(function=function))
    if number % 2: check(cuda.cuCtxSynchronize())
    allocate(5000)
    check(cuda.cuCtxDestroy_v2(other))
    return other.value

handles = [KIND(number) for number in range(40)]
state = mine()
show(again=len(set(handles)) < len(handles), launches=state.launches, done=state.done_launches, queued=state.queued,
     jobs=[state.jobs_begun, state.jobs_done], longest=state.longest_queue, memory=state.memory_used)
"""


@pytest.mark.usefixtures("node")
@pytest.mark.parametrize(
    ("kind", "cap"), [("end_of_stream", {}), ("end_of_stream", {"window": 1}), ("end_of_context", {"sync_every": 2})]
)
def test_a_handle_that_is_used_again_counts_once(emulated: Path, kind: str, cap: dict[str, int]) -> None:
    """Whether the stream or the context before it had something left when it ended or not."""
    done = subprocess.run(
        [sys.executable, "-c", SETTING_UP + USED_AGAIN.replace("KIND", kind)], env=environment(emulated, **cap),
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("again")
    assert found.pop("longest") <= 3
    assert found == {"launches": 120, "done": 120, "queued": 0, "jobs": [40, 40], "memory": 0}


BINDINGS = """
from cuda.bindings import driver
(error,) = driver.cuInit(0)
assert error == 0, error
_, context = driver.cuDevicePrimaryCtxRetain(0)
driver.cuCtxSetCurrent(context)
_, free, total = driver.cuMemGetInfo()
_, pointer = driver.cuMemAlloc(1000)
refused, _ = driver.cuMemAlloc(2000)
_, module = driver.cuModuleLoadData(PTX)
_, function = driver.cuModuleGetFunction(module, b"work")
for _ in range(7):
    (error,) = driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
    assert error == 0, error
active = mine().active
driver.cuCtxSynchronize()
show(launches=mine().launches, syncs=mine().syncs, active=[active, mine().active], total=total, refused=int(refused))
"""


@pytest.mark.usefixtures("node")
def test_cuda_bindings_is_gated_without_knowing(emulated: Path) -> None:
    pytest.importorskip("cuda.bindings")
    command = [sys.executable, "-c", SETTING_UP + BINDINGS]
    surroundings = environment(emulated, sync_every=3, memory=2500)
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"launches": 7, "syncs": 2, "active": [True, False], "total": 2500, "refused": 2}
