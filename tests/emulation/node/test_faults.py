"""Processes that are killed in the middle of anything, and users who have no business here."""

import fcntl
import os
import select
import shlex
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest
from tests.emulation.node.conftest import MEMORY, OpenNode
from tests.emulation.node.places import NATIVE, of_gpu, places

from gpuyard.core.errors import InputError
from gpuyard.emulation.node import node as look
from gpuyard.emulation.node.segment import path_of

PATIENCE_S = 900
"""Longer than any machine is busy: what takes so long is a deadlock."""
KILLS = 300
MIB = 2**20

Hammer = Callable[..., "subprocess.Popen[bytes]"]


def compile_hammer(program: Path, flags: Sequence[str] = ()) -> Path:
    """Compile the program as a library that stands on the ground would be."""
    sources = [Path(__file__).with_name("hammer.c"), *sorted((NATIVE / "node").glob("*.c"))]
    strict = ["-std=c11", "-O2", "-pthread", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"]
    compiler = shlex.split(os.environ.get("CC") or "cc")
    subprocess.run([*compiler, *strict, *flags, f"-I{NATIVE / 'node'}", *sources, "-o", program], check=True)
    return program


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_hammer(tmp_path_factory.mktemp("hammer") / "hammer")


@pytest.fixture
def hammer(program: Path, node_name: str) -> Iterator[Hammer]:
    """Start processes that hammer at the test's node; each is connected when this returns."""
    with ExitStack() as stack:

        def start(seed: int, operations: int = 0) -> "subprocess.Popen[bytes]":
            process = subprocess.Popen([program, node_name, str(seed), str(operations)], stdout=subprocess.PIPE)
            stack.callback(process.communicate)
            stack.callback(process.kill)
            assert process.stdout
            assert select.select([process.stdout], [], [], PATIENCE_S)[0], "it cannot connect: deadlock"
            assert process.stdout.readline() == b"ready\n"
            return process

        yield start


def is_locked(node: str, byte: int) -> bool:
    """Whether any process holds a byte of a node's file."""
    with path_of(node).open("r+b") as file:
        question = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
        kind: int = struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_OFD_GETLK, question))[0]
    return kind != fcntl.F_UNLCK


@pytest.mark.parametrize("sharing", ["time-slice", "fifo", "priority"])
def test_killing_hundreds_of_processes_leaves_no_lock_and_no_memory_behind(
    open_node: OpenNode, node_name: str, hammer: Hammer, sharing: str
) -> None:
    """Each is stopped wherever it is, many of them inside the lock that all others wait for, and then killed."""
    node, random = open_node(sharing), Random(9)
    client, gpu = node.connect(0, priority=1), places()["first_gpu"]
    assert client.reserve(MIB)
    running, inside, last = [hammer(seed) for seed in range(3)], 0, 0.0
    for kill in range(KILLS // 3):
        time.sleep(random.random() / 1000)
        victim = running.pop(0)
        victim.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, victim.pid, os.WSTOPPED)
        inside += is_locked(node_name, gpu)
        victim.kill()
        victim.wait()
        running.append(hammer(100 + kill))
        now = node.clock.now()
        position = client.device_time(now)
        assert last - 1e-3 <= position <= now + 1e-6
        client.submit(position + 1e-6, now, now)
        last = position
    for victim in running:
        victim.kill()
        victim.wait()
    assert inside > 0, "nobody was ever stopped inside the lock, so this has tested nothing"
    (view,) = look(node_name).gpus
    assert ([one.pid for one in view.clients], view.memory_used) == ([os.getpid()], MIB)
    assert client.reserve(MEMORY - MIB)
    now = node.clock.now() + 1
    assert client.device_time(now + 1) - client.device_time(now) == pytest.approx(1.0)
    assert not client.has_neighbours


def test_processes_that_end_by_themselves_leave_nothing_either(
    open_node: OpenNode, node_name: str, hammer: Hammer
) -> None:
    open_node()
    processes = [hammer(seed, 20_000) for seed in range(3)]
    assert [process.wait(PATIENCE_S) for process in processes] == [0, 0, 0]
    (view,) = look(node_name).gpus
    assert (view.clients, view.memory_used) == ((), 0)
    assert view.busy_s > 0, "what was done for them is not forgotten"


def test_threads_share_a_client_beside_other_processes(open_node: OpenNode, hammer: Hammer) -> None:
    node = open_node()
    client = node.connect(0)
    hammer(1)

    def work(_: int) -> int:
        last, taken = 0.0, 0
        for _ in range(300):
            now = node.clock.now()
            position = client.device_time(now)
            assert last - 1e-3 <= position <= now + 1e-6
            last = position
            taken += client.reserve(MIB)
            client.reached_at(position + 1e-5, now)
        return taken

    with ThreadPoolExecutor(4) as threads:
        taken = sum(threads.map(work, range(4)))
    (mine,) = (one for one in look(node.name).gpus[0].clients if one.pid == os.getpid())
    assert mine.reserved_bytes == taken * MIB == 1200 * MIB


def test_no_operation_breaks_a_rule_of_c(open_node: OpenNode, node_name: str, hammer: Hammer, tmp_path: Path) -> None:
    flags = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    try:
        checked = compile_hammer(tmp_path / "hammer", flags)
    except subprocess.CalledProcessError:
        pytest.skip("the compiler has no sanitizers")
    open_node("fifo")
    hammer(4)
    done = subprocess.run([checked, node_name, "3", "3000"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files to others, and become another user")


@needs_root
def test_a_file_of_another_user_is_refused(open_node: OpenNode, node_name: str) -> None:
    path = path_of(node_name)
    path.write_bytes(b"")
    os.chown(path, 12345, 12345)
    try:
        with pytest.raises(InputError, match="belongs to another user"):
            open_node()
        assert path.read_bytes() == b""
    finally:
        path.unlink()


@needs_root
def test_another_user_can_neither_read_nor_lock_nor_join_a_node(
    open_node: OpenNode, node_name: str, program: Path
) -> None:
    open_node()
    path = path_of(node_name)
    for command in (["cat", str(path)], ["sh", "-c", f": >> {path}"], ["flock", "-n", str(path), "true"]):
        done = subprocess.run(command, user=12345, group=12345, capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert "Permission denied" in done.stderr
    with Path(f"/dev/shm/hammer-{node_name}").open("xb") as copy:  # where another user can run it
        try:
            copy.write(program.read_bytes())
            copy.close()
            Path(copy.name).chmod(0o755)
            command = [copy.name, node_name, "1", "1"]
            done = subprocess.run(command, user=12345, group=12345, capture_output=True, text=True, check=False)
        finally:
            Path(copy.name).unlink()
    assert done.stderr == "no process is attached to such a node\n", "nodes of two users are two, whatever their names"


def test_whatever_the_mask_nobody_else_may_read_it(open_node: OpenNode, node_name: str) -> None:
    before = os.umask(0)
    try:
        open_node()
    finally:
        os.umask(before)
    assert path_of(node_name).stat().st_mode & 0o777 == 0o600


def test_something_else_in_its_place_is_refused(open_node: OpenNode, node_name: str) -> None:
    path = path_of(node_name)
    os.mkfifo(path)
    try:
        with pytest.raises(InputError, match="cannot be opened"):
            open_node()
    finally:
        path.unlink()


def test_a_node_that_lies_about_its_gpus_is_not_believed(open_node: OpenNode, node_name: str) -> None:
    """A count that would reach beyond the file, as another version or a fault might leave."""
    open_node()
    with path_of(node_name).open("r+b") as file:
        file.seek(
            of_gpu("updated") - places()["gpu.updated"] - 8
        )  # the last number of the header: how many GPUs follow
        file.write((2**60).to_bytes(8, "little"))
    with pytest.raises(InputError, match="in use by another version of gpuyard"):
        open_node()
