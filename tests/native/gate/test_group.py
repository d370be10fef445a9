"""A group's file: whose it is, how long it lives, and what becomes of forked processes."""

from __future__ import annotations

import os
import stat
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gpuyard.core.errors import InputError
from gpuyard.sharing.calls import GateError, GateFault
from gpuyard.sharing.group import Group, Terms


def only_file(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


def test_the_file_is_this_user_s_alone_and_goes_with_the_last_of_the_group(shared_memory: Path) -> None:
    first, second = Group("a"), Group("a")
    about = only_file(shared_memory).stat()
    assert stat.S_IMODE(about.st_mode) == 0o600
    assert about.st_uid == os.getuid()
    first.close()
    assert only_file(shared_memory)
    second.close()
    assert list(shared_memory.iterdir()) == []


def test_who_only_watches_does_not_keep_a_group_alive(shared_memory: Path) -> None:
    with pytest.raises(InputError, match="no program is in"):
        Group("a", watch=True)
    member = Group("a")
    watcher = Group("a", watch=True)
    member.close()
    assert list(shared_memory.iterdir()) == []
    watcher.close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_another_user_s_file_is_refused(shared_memory: Path) -> None:
    member = Group("a")
    os.chown(only_file(shared_memory), 12345, -1)
    with pytest.raises(InputError, match="belongs to another user"):
        Group("a")
    member.close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_cannot_open_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        monkeypatch.setenv("GPUYARD_SHM", name)
        member = Group("a")
        script = f"import os; os.setuid(12345); os.open({str(only_file(folder))!r}, os.O_RDWR)"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert "PermissionError" in done.stderr
        member.close()


def test_a_link_is_not_followed(shared_memory: Path, tmp_path: Path) -> None:
    member = Group("a")
    path = only_file(shared_memory)
    member.close()
    (tmp_path / "elsewhere").touch()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="cannot be opened"):
        Group("a")


def test_another_version_is_refused_while_it_is_in_use_and_replaced_afterwards(shared_memory: Path) -> None:
    member = Group("a")
    with only_file(shared_memory).open("r+b") as file:
        file.seek(8)
        file.write(struct.pack("Q", 999))
    with pytest.raises(InputError, match="another version"):
        Group("a")
    member.close()
    Group("a").close()


def test_what_the_dead_left_behind_is_replaced(shared_memory: Path) -> None:
    member = Group("a")
    path = only_file(shared_memory)
    member.close()
    path.write_bytes(b"torn" * 100)
    path.chmod(0o600)
    assert Group("a").connect("gpu").launches[0] == 0


@pytest.mark.parametrize("name", ["", "a b", "../a", "x" * 65, "ä"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(InputError, match="no name of a group"):
        Group(name)


def test_a_group_has_one_controller(group: Group) -> None:
    other = Group("test")
    group.control()
    with pytest.raises(GateError) as refused:
        other.control()
    assert refused.value.code == GateFault.CONTROLLED
    group.close()
    other.control()


def test_what_a_controller_decided_is_nothing_to_the_next_one(group: Group) -> None:
    group.connect("gpu", Terms(3, sync_every=9))
    earlier = Group("test")
    earlier.control()
    earlier.decide(0, earlier.look(0).clients, [Terms(0)])
    assert [state.terms for state in group.look(0).clients] == [Terms(0)]
    earlier.close()
    later = Group("test")
    later.control()
    gpu = group.look(0)
    assert (gpu.controlled, gpu.clients[0].terms) == (True, Terms(3, sync_every=9))


def test_a_gpu_takes_64_clients(group: Group) -> None:
    clients = [group.connect("gpu") for _ in range(64)]
    with pytest.raises(GateError, match="as many processes"):
        group.connect("gpu")
    clients[7].disconnect()
    group.connect("gpu")


def test_a_group_takes_64_gpus(group: Group) -> None:
    for number in range(64):
        group.connect(f"gpu {number}")
    with pytest.raises(GateError, match="as many GPUs"):
        group.connect("one more")
    group.connect("gpu 5")


def test_memory_is_taken_from_a_limit_and_given_back(group: Group) -> None:
    client = group.connect("gpu", memory_limit=100)
    assert client.reserve(60)
    assert not client.reserve(41)
    assert client.memory() == (100, 60)
    assert client.reserve(40)
    client.release(70)
    assert group.look(0).clients[0].memory_used == 30
    client.release(1000)  # never less than nothing
    assert group.look(0).clients[0].memory_used == 0


FORKING = """
import os
from gpuyard.sharing.group import Group, Terms
from gpuyard.sharing.calls import GateError
group = Group("test")
low, high = group.connect("gpu", Terms(0)), group.connect("gpu", Terms(1))
high.arrive()
child = os.fork()
if child == 0:
    assert low.stop[0] == 0 and high.queued[0] == 0  # the child has nothing of it
    for call in (low.arrive, low.wait, low.disconnect, group.close):
        try:
            call()
        except GateError as error:
            assert "forked" in str(error), error
        else:
            os._exit(1)
    again = Group("test")  # and may join by itself
    own = again.connect("gpu", Terms(0))
    assert own.stop[0] == 1
    os._exit(0 if len(again.look(0).clients) == 3 else 2)
assert os.waitpid(child, 0)[1] == 0
assert low.stop[0] == 1
assert len(group.look(0).clients) == 2, "the child's end took nothing of its parent's, and its own is gone"
"""


def test_a_forked_child_is_a_stranger() -> None:
    subprocess.run([sys.executable, "-c", FORKING], check=True)


def test_closing_opens_every_gate_for_those_who_still_launch(group: Group) -> None:
    low, high = group.connect("gpu", Terms(0)), group.connect("gpu", Terms(1))
    high.arrive()
    assert low.stop[0] == 1
    group.close()
    assert low.stop[0] == 0
    assert not low.launched()
