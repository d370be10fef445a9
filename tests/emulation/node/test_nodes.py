"""Making, sharing, refusing, inheriting and removing a node's segment."""

import multiprocessing
import os
import resource
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.emulation.node.conftest import V100, OpenNode
from tests.emulation.node.places import places
from tests.emulation.node.player import SLOT

from gpuyard.core.errors import InputError
from gpuyard.emulation.node import GpuSlot, Node, SharedGpuClient, live_nodes
from gpuyard.emulation.node.segment import folder, path_of

PLAYER = Path(__file__).with_name("player.py")


def test_processes_of_a_node_agree_on_the_time_and_the_gpus(open_node: OpenNode) -> None:
    first, second = open_node(speed=50.0), open_node(speed=50.0)
    assert first.gpus == second.gpus == (V100,)
    assert first.uuids == second.uuids
    assert second.clock.now() - first.clock.now() < 50 * 0.1
    assert (second.clock.origin, second.clock.speed) == (first.clock.origin, 50.0)


def test_only_its_user_can_read_it_and_the_last_to_close_removes_it(open_node: OpenNode, node_name: str) -> None:
    first, second = open_node(), open_node()
    path = path_of(node_name)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first.close()
    assert path.exists()
    second.close()
    assert not path.exists()
    second.close()  # once more does no harm


@pytest.mark.parametrize(
    ("gpus", "speed", "sharing", "message"),
    [
        ((V100, V100), 1.0, "time-slice", "is in use with GPUs 1xV100, not 2xV100"),
        ((GpuSlot("K80", "Tesla K80", 2**30),), 1.0, "time-slice", "is in use with GPUs 1xV100, not 1xK80"),
        ((GpuSlot("V100", "V100", 2**30),), 1.0, "time-slice", "is in use with GPUs other 1xV100, not 1xV100"),
        ((V100,), 2.0, "time-slice", "is in use with speed 1, not 2"),
        ((V100,), 1.0, "fifo", "is in use with sharing time-slice:quantum=2ms,switch=0.01ms, not fifo"),
    ],
)
def test_a_live_node_is_not_taken_for_another(
    open_node: OpenNode, gpus: tuple[GpuSlot, ...], speed: float, sharing: str, message: str
) -> None:
    open_node()
    with pytest.raises(InputError, match=message):
        open_node(sharing, gpus, speed)


def test_a_node_whose_processes_were_killed_is_made_anew(open_node: OpenNode, node_name: str) -> None:
    player = subprocess.Popen([sys.executable, PLAYER, node_name, "fifo", "hold"], stdout=subprocess.PIPE)
    assert player.stdout
    assert player.stdout.readline() == b"ready\n"
    with pytest.raises(InputError, match="not time-slice"):
        open_node()
    player.kill()
    player.communicate()
    assert path_of(node_name).exists()
    node = open_node(speed=3.0)
    assert node.clock.speed == 3.0
    assert node.connect(0).reserve(V100.memory_bytes)


def test_files_of_dead_nodes_are_removed_when_somebody_looks(open_node: OpenNode, node_name: str) -> None:
    open_node()
    dead = path_of(f"{node_name}-dead")
    shutil.copy(path_of(node_name), dead)
    assert node_name in {view.name for view in live_nodes()}
    assert not dead.exists()


@pytest.mark.parametrize("content", [b"", b"x", b"gpuyard\0" + bytes(5000)])
def test_a_file_that_is_no_segment_is_replaced(open_node: OpenNode, node_name: str, content: bytes) -> None:
    path_of(node_name).write_bytes(content)
    assert open_node().gpus == (V100,)


def test_a_live_segment_of_another_version_is_refused(open_node: OpenNode, node_name: str) -> None:
    open_node()
    with path_of(node_name).open("r+b") as file:
        file.seek(places()["node.version"])
        file.write((99).to_bytes(8, "little"))
    with pytest.raises(InputError, match="in use by another version of gpuyard"):
        open_node()
    assert node_name not in {view.name for view in live_nodes()}


def test_a_link_in_its_place_is_not_followed(open_node: OpenNode, node_name: str, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("mine")
    path_of(node_name).symlink_to(target)
    try:
        with pytest.raises(InputError, match="cannot be opened"):
            open_node()
    finally:
        path_of(node_name).unlink()
    assert target.read_text() == "mine"


def test_no_room_for_the_segment_is_said_so_and_leaves_nothing(open_node: OpenNode, node_name: str) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(InputError, match="no room for what emulated processes share: File too large"):
            open_node()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not path_of(node_name).exists()


@pytest.mark.parametrize(("name", "gpus", "speed"), [("", (V100,), 1), ("x" * 101, (V100,), 1), ("x", (), 1)])
def test_bad_names_and_empty_nodes_are_refused(name: str, gpus: tuple[GpuSlot, ...], speed: float) -> None:
    with pytest.raises(InputError, match="field node"):
        Node.open(name, gpus, speed=speed)


@pytest.mark.parametrize("speed", [0.0, -1.0, float("inf"), float("nan")])
def test_a_clock_has_a_positive_speed(speed: float) -> None:
    with pytest.raises(InputError, match="field speed"):
        Node.open("never-made", (V100,), speed=speed)


def test_any_text_names_a_node(node_name: str) -> None:
    name = f"{node_name} 2xV100+K80/mein gerät.yaml"
    node = Node.open(name, (V100,))
    try:
        assert path_of(name).name == f"gpuyard-{os.getuid()}-{node_name}_2xV100+K80_mein_ger__t.yaml"
        assert name in {view.name for view in live_nodes()}
    finally:
        node.close()


def _use(client: SharedGpuClient, node: Node, answers: Any) -> None:
    for use in (lambda: client.device_time(1e9), lambda: client.submit(1e9, 0.0, 1e9), lambda: client.reserve(1)):
        try:
            use()
            answers.put("went through")
        except InputError as error:
            answers.put(str(error))
    client.publish(steps=7)
    client.release(100)  # as when the copies of a parent's tensors are freed
    client.disconnect()
    node.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_no_seat_and_cannot_disturb_its_parent(open_node: OpenNode, node_name: str) -> None:
    node = open_node()
    client = node.connect(0)
    now = node.clock.now()
    client.submit(now + 5, now, 5)
    client.reserve(100)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_use, args=(client, node, answers))
    child.start()
    found = [answers.get(timeout=900) for _ in range(3)]
    child.join()
    assert all(f"belongs to process {os.getpid()}, and a forked process cannot use it" in each for each in found)
    assert client.reached_at(now + 5, now) == pytest.approx(now + 5)
    view = next(view for view in live_nodes() if view.name == node_name)
    (mine,) = view.gpus[0].clients
    assert (mine.pid, mine.steps, mine.reserved_bytes) == (os.getpid(), 0, 100)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_that_outlives_its_parent_does_not_keep_the_seat(open_node: OpenNode) -> None:
    """As workers of a data loader may, for a while, when the trainer is killed."""
    node = open_node()
    lives, ends = os.pipe()
    trainer = multiprocessing.get_context("fork").Process(target=_leave_an_orphan, args=(node.name, lives, ends))
    trainer.start()
    trainer.join()
    client = node.connect(0)
    assert client.reserve(V100.memory_bytes)
    assert not client.has_neighbours
    os.close(ends)
    os.close(lives)


def _leave_an_orphan(name: str, lives: int, ends: int) -> None:
    node = Node.open(name, (V100,))
    node.connect(0).reserve(V100.memory_bytes)
    is_there, tells = os.pipe()
    if os.fork() == 0:
        sys.stdin.close()
        os.close(ends)
        os.write(tells, b"!")
        os.read(lives, 1)  # until the test is over
    else:
        os.read(is_there, 1)  # a child that has not come out of fork yet has its parent's locks
    os._exit(0)


def test_a_closed_node_says_so(open_node: OpenNode) -> None:
    node = open_node()
    client = node.connect(0)
    node.close()
    with pytest.raises(InputError, match="is closed"):
        client.device_time(0.0)


def test_the_same_gpu_may_differ_between_nodes(node_name: str) -> None:
    nodes = [Node.open(f"{node_name}-{number}", (SLOT,)) for number in range(2)]
    try:
        assert nodes[0].uuids != nodes[1].uuids
        assert len(list(folder().glob(f"gpuyard-*-{node_name}-*"))) == 2
    finally:
        for node in nodes:
            node.close()
