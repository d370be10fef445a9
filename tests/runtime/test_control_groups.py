"""Jobs are held to their memory and CPU time by groups of the kernel: what is written, below a folder that looks like
one, and what the kernel makes of it where it lets us."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.runtime.test_processes import eventually

from gpuyard.core.errors import InputError
from gpuyard.runtime.control_groups import ControlGroups, check_control_groups

BUSY = "import time\nwhile True: time.perf_counter()"
HUNGRY = "held = bytearray(b'1') * {}\nprint(len(held))"


def group_of(version: int, folder: Path) -> Path:
    (folder / "cgroup.procs").write_text("")
    if version == 2:
        (folder / "cgroup.controllers").write_text("cpu memory")
    else:
        (folder / "memory.limit_in_bytes").write_text("")
        (folder / "cpu.cfs_quota_us").write_text("")
    return folder


def made(folder: Path) -> dict[str, dict[str, str]]:
    return {
        group.name: {file.name: file.read_text() for file in group.iterdir()}
        for group in sorted(folder.iterdir())
        if group.is_dir()
    }


@pytest.mark.parametrize(
    ("version", "first", "second"),
    [
        (
            2,
            {"memory.max": "1500000000", "cpu.max": "50000 100000"},
            {"memory.max": "2000000000", "cpu.max": "1000 100000"},
        ),
        (
            1,
            {"memory.limit_in_bytes": "1500000000", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"},
            {"memory.limit_in_bytes": "2000000000", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "1000"},
        ),
    ],
)
def test_limits_are_those_of_the_lease_and_change_with_it(
    version: int, first: dict[str, str], second: dict[str, str], tmp_path: Path
) -> None:
    groups = ControlGroups([str(group_of(version, tmp_path))])
    groups.hold(("a", 1), cpus=0.5, memory_gb=1.5)
    groups.hold(("b", 1), cpus=3.0, memory_gb=10.0)
    groups.add(("a", 1), 123)
    a, b = made(tmp_path).values()
    assert a == first | {"cgroup.procs": "123"}
    assert "cgroup.procs" not in b
    groups.hold(("a", 1), cpus=0.0, memory_gb=2.0)
    assert next(iter(made(tmp_path).values())) == second | {"cgroup.procs": "123"}


def test_a_group_goes_with_its_attempt_and_those_of_dead_agents_with_the_next_agent(tmp_path: Path) -> None:
    group_of(2, tmp_path)
    dead, other = tmp_path / "gpuyard-1-1-0", tmp_path / "somebodys"
    dead.mkdir()
    other.mkdir()
    groups = ControlGroups([str(tmp_path)])
    assert list(made(tmp_path)) == ["somebodys"]
    groups.hold("job", 1.0, 1.0)
    (mine,) = tmp_path.glob("gpuyard-*")
    ControlGroups([str(tmp_path)])  # another agent leaves it alone
    for file in mine.iterdir():
        file.unlink()  # the kernel's own go with the folder
    groups.drop("job")
    groups.drop("job")
    groups.add("job", 1)
    assert list(made(tmp_path)) == ["somebodys"]


def test_without_a_folder_nobody_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    groups = ControlGroups([])
    groups.hold("job", 1.0, 1.0)
    groups.add("job", 1)
    groups.drop("job")
    groups.close()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_no_group_or_takes_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no control group"):
        check_control_groups([tmp_path])
    group_of(2, tmp_path)
    assert check_control_groups([tmp_path]) == {"memory", "CPU time"}
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory +cpu"
    assert made(tmp_path) == {}
    (tmp_path / "cgroup.subtree_control").unlink()
    (tmp_path / "cgroup.subtree_control").mkdir()  # cannot be written, whoever asks
    with pytest.raises(InputError, match="takes no groups"):
        check_control_groups([tmp_path])


def test_a_group_of_a_hierarchy_that_limits_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").write_text("")  # as that of pids in version 1
    with pytest.raises(InputError, match="limits neither memory nor CPU time"):
        check_control_groups([tmp_path])
    (tmp_path / "memory.limit_in_bytes").write_text("")
    assert check_control_groups([tmp_path]) == {"memory"}


@pytest.fixture
def kernel() -> Iterator[list[Path]]:
    """Groups of the kernel below the one that this process is in: of memory and CPU time."""
    folders = [folder / f"test-{uuid4().hex[:8]}" for folder in own_groups()]
    try:
        for folder in folders:
            folder.mkdir()
        if not folders or check_control_groups(folders) != {"memory", "CPU time"}:
            pytest.skip("this process is in no control group of memory and of CPU time")
        yield folders
    except OSError as error:
        pytest.skip(f"this user may make no control groups: {error}")
    except InputError as error:
        pytest.skip(f"the kernel limits nothing below this process's control group: {error}")
    finally:
        for folder in folders:
            if folder.exists():
                folder.rmdir()


def own_groups() -> list[Path]:
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, kinds, path = line.split(":", 2)
        if number == "0":
            kinds = "unified" if Path("/sys/fs/cgroup/unified").exists() else ""
        if kinds == "" or {"memory", "cpu"} & set(kinds.split(",")):
            found.append(Path("/sys/fs/cgroup") / kinds / path.lstrip("/"))
    return [folder for folder in found if (folder / "cgroup.procs").exists()]


@pytest.fixture
def groups(kernel: list[Path]) -> Iterator[ControlGroups]:
    found = ControlGroups(list(map(str, kernel)))
    yield found
    found.close()
    assert [each for folder in kernel for each in folder.iterdir() if each.is_dir()] == []


def in_group(groups: ControlGroups, code: str) -> subprocess.Popen[str]:
    """A process that starts once it is held."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"input()\n{code}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    groups.add("job", process.pid)
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return process


def test_the_kernel_ends_a_job_that_takes_more_memory_and_nobody_else(groups: ControlGroups) -> None:
    groups.hold("job", 1.0, 0.05)
    with in_group(groups, HUNGRY.format(200_000_000)) as process:
        assert process.wait() == -9
    assert groups.lacked_memory("job")
    groups.hold("job", 1.0, 1.0)  # now it has as much, while it runs
    with in_group(groups, HUNGRY.format(200_000_000)) as process:
        assert process.communicate()[0] == "200000000\n"
    groups.hold("other", 1.0, 0.05)
    assert not groups.lacked_memory("other")


def test_the_kernel_gives_a_job_no_more_cpu_time_than_it_was_granted(groups: ControlGroups, kernel: list[Path]) -> None:
    groups.hold("job", 0.05, 1.0)  # less than it would get on a busy machine
    process = in_group(groups, BUSY)
    (counts,) = (found for folder in kernel for found in folder.glob("gpuyard-*/cpu.stat"))
    eventually(lambda: dict(map(str.split, counts.read_text().splitlines()))["nr_throttled"] != "0")
    began, used = time.monotonic(), cpu_time(process.pid)
    time.sleep(0.5)
    assert cpu_time(process.pid) - used <= 0.05 * (time.monotonic() - began) + 0.05
    process.kill()
    process.communicate()


def cpu_time(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def test_what_a_job_left_behind_ends_with_its_group(groups: ControlGroups, kernel: list[Path]) -> None:
    groups.hold("job", 1.0, 1.0)
    code = "import subprocess as s; print(s.Popen(['sleep', '99'], start_new_session=True, stdout=s.DEVNULL).pid)"
    with in_group(groups, code) as process:
        out, _ = process.communicate()
    groups.close()
    found = Path(f"/proc/{int(out)}/stat")
    assert not found.exists() or ") Z " in found.read_text()
