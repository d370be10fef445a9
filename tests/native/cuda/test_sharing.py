"""Processes on one emulated node: they share its GPUs' memory, and monitors and PyTorch's emulated GPU see the same one."""

import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.native.cuda.driver import settings

from gpuyard.emulation.monitor import read_live
from gpuyard.emulation.session import open_node
from gpuyard.emulation.settings import Settings
from gpuyard.native import find
from gpuyard.profiles.gpus import parse_gpus

ROOT = Path(__file__).resolve().parents[3]
GIB = 2**30

PROGRAM = """
import ctypes, sys
from tests.native.cuda.driver import Driver, DriverError
driver = Driver()
for line in sys.stdin:
    word, number = line.split()
    if word == "take":
        try:
            print(driver.allocate(int(number)), flush=True)
        except DriverError as error:
            print(-error.code, flush=True)
    elif word == "free":
        left, total = ctypes.c_size_t(), ctypes.c_size_t()
        driver.call("cuMemGetInfo_v2", ctypes.byref(left), ctypes.byref(total))
        print(left.value, flush=True)
"""
"""Takes memory, and tells how much is left, as it is told on stdin; errors are negative."""


class Program:
    """A process that uses the driver."""

    def __init__(self, **given: str) -> None:
        environment = settings(**given) | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, word: str, number: int = 0) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word} {number}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def programs(count: int, **given: str) -> Iterator[list[Program]]:
    made = [Program(**given) for _ in range(count)]
    try:
        yield made
    finally:
        for program in made:
            program.kill()
            for pipe in (program.process.stdin, program.process.stdout):
                if pipe is not None:
                    pipe.close()


@pytest.fixture
def node() -> str:
    return f"driver-{uuid.uuid4()}"


def test_memory_is_taken_from_all_and_returns_with_the_dead(node: str) -> None:
    with programs(2, gpus="A100", node=node) as (first, second):
        whole = second.ask("free")
        assert whole == parse_gpus("A100")[0].memory_bytes
        assert first.ask("take", 30 * GIB) > 0
        assert second.ask("free") == whole - 30 * GIB
        assert second.ask("take", 20 * GIB) == -2
        (reading,) = read_live(node)
        used = {process.pid: process.memory_bytes for process in reading.gpus[0].processes}
        assert used == {first.process.pid: 30 * GIB, second.process.pid: 0}
        first.kill()
        assert second.ask("take", 20 * GIB) > 0
        assert second.ask("free") == whole - 20 * GIB


def test_a_process_keeps_to_its_own_limit(node: str) -> None:
    with programs(1, gpus="A100", node=node, memory_limit="1GiB") as (program,):
        assert program.ask("take", GIB + 1) == -2
        assert program.ask("take", GIB // 2) > 0
        assert program.ask("free") == GIB // 2
        assert program.ask("take", GIB // 2 + 1) == -2


@pytest.mark.parametrize(
    "sharing",
    [
        "",
        "fifo",
        "priority",
        "spatial",
        "partition",
        "exclusive",
        "time-slice:quantum=4ms,switch=20us",
        "spatial:capacity=1.5,interference=0.9",
    ],
)
def test_it_opens_the_same_node_as_the_emulated_gpu_of_pytorch(node: str, sharing: str) -> None:
    """Both read the same settings: had they understood them differently, the second would be refused."""
    mine = Settings(gpus="2xV100+1xK80", node=node, speed=2.0, sharing=sharing)
    opened = open_node(mine, parse_gpus(mine.gpus))
    try:
        with programs(
            1, **{name.removeprefix("GPUYARD_").lower(): value for name, value in mine.environment().items()}
        ) as (program,):
            assert program.ask("free") == parse_gpus("V100")[0].memory_bytes
            (reading,) = read_live(node)
            assert [len(gpu.processes) for gpu in reading.gpus] == [1, 0, 0]
    finally:
        opened.close()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"gpus": "A1000"}, "GPUYARD_GPUS=A1000: 'A1000' is not a bundled GPU kind; `gpuyard gpus` lists them"),
        ({"gpus": "17xA100"}, "GPUYARD_GPUS=17xA100: a machine has 1 to 16 GPUs"),
        ({"gpus": "A100", "speed": "fast"}, "GPUYARD_SPEED=fast is out of range"),
        ({"gpus": "A100", "clock": "wall"}, "GPUYARD_CLOCK=wall is not a clock: real, virtual or device"),
        ({"gpus": "A100", "sharing": "fair"}, "GPUYARD_SHARING=fair is not a sharing policy"),
        ({"gpus": "A100", "sharing": "fifo:quantum=2ms"}, "GPUYARD_SHARING=fifo:quantum=2ms has an option that is unknown or wrong"),
        ({"gpus": "A100", "memory_limit": "lots"}, "GPUYARD_MEMORY_LIMIT=lots is not an amount of memory as 4GiB or 500MB"),
        ({"gpus": "A100", "kernel_times": "a=1,b"}, "GPUYARD_KERNEL_TIMES: line 1: 'b' is not pattern=microseconds"),
        ({"gpus": "A100", "kernel_times": "/no/such/file"}, "GPUYARD_KERNEL_TIMES=/no/such/file cannot be read; it is a file, or a list as axpy=12.5,matmul*=300"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_said_in_one_line(given: dict[str, str], said: str) -> None:
    program = f"import ctypes; print(ctypes.CDLL({str(find('libcuda.so.1'))!r}).cuInit(0))"
    done = subprocess.run(
        [sys.executable, "-c", program], env=settings(**given), capture_output=True, text=True, check=True
    )
    assert done.stdout != "0\n"
    assert done.stderr == f"gpuyard: libcuda: {said}\n"


FORK = """
import ctypes, os, sys
library = ctypes.CDLL(sys.argv[1])
def in_child(check):
    child = os.fork()
    if child == 0:
        try:
            check()
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
def starts():
    assert library.cuInit(0) == 0
def is_not_started():
    assert library.cuInit(0) == 3
    assert library.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) == 3
    assert library.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(4)) == 3
in_child(starts)
assert library.cuInit(0) == 0
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert library.cuCtxSetCurrent(context) == 0
assert library.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(2**30)) == 0
in_child(is_not_started)
free, total = ctypes.c_size_t(), ctypes.c_size_t()
assert library.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
assert total.value - free.value == 2**30
"""


def test_a_forked_child_may_start_the_driver_only_if_its_parent_had_not(node: str) -> None:
    command = [sys.executable, "-c", FORK, str(find("libcuda.so.1"))]
    done = subprocess.run(
        command, env=settings(gpus="A100", node=node), capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_visible_devices_hide_the_others(node: str) -> None:
    program = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
print(library.cuInit(0))
count, name = ctypes.c_int(), ctypes.create_string_buffer(64)
library.cuDeviceGetCount(ctypes.byref(count)); library.cuDeviceGetName(name, 64, 0); print(count.value, name.value.decode())
"""
    environment = settings(gpus="V100+K80+A100", node=node) | {"CUDA_VISIBLE_DEVICES": "1,0,7,2"}
    command = [sys.executable, "-c", program, str(find("libcuda.so.1"))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "0\n2 Tesla K80\n"


@pytest.mark.parametrize("clock", ["device", "real"])
def test_a_kernel_takes_as_long_as_was_said(node: str, clock: str, tmp_path: Path) -> None:
    """By the clock of a node the host's own time may come on top: it queues kernels while others run."""
    times = tmp_path / "times.txt"
    times.write_text("# microseconds\nother = 1\nk = 2000  # the first that matches counts\nk* = 1\n")
    program = """
import ctypes
from tests.native.cuda.driver import Driver, kernel
driver = Driver()
function, memory = driver.function(driver.load(kernel("", 1)), "k"), driver.allocate(4)
events = [ctypes.c_void_p(), ctypes.c_void_p()]
for event in events: driver.call("cuEventCreate", ctypes.byref(event), 0)
driver.launch(function, (1,), (1,), [ctypes.c_uint64(memory)])
driver.call("cuEventRecord", events[0], None)
for _ in range(5): driver.launch(function, (1,), (1,), [ctypes.c_uint64(memory)])
driver.call("cuEventRecord", events[1], None)
driver.call("cuEventSynchronize", events[1])
told = ctypes.c_float()
driver.call("cuEventElapsedTime", ctypes.byref(told), *events)
print(told.value)
"""
    environment = settings(gpus="A100", node=node, kernel_times=str(times), clock=clock)
    environment["PYTHONPATH"] = f"{ROOT}:{ROOT / 'src'}"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    if clock == "device":
        assert float(done.stdout) == pytest.approx(10.0, rel=1e-6)
    else:
        assert float(done.stdout) >= 10.0 * (1 - 1e-6)
