"""Jobs are held to their memory by groups of the kernel: what is written, below a folder that looks like one."""

from pathlib import Path

import pytest

from gpuyard.core.errors import InputError
from gpuyard.runtime.control_groups import ControlGroups, check_control_group


def group_of(version: int, folder: Path) -> Path:
    (folder / "cgroup.procs").write_text("")
    if version == 2:
        (folder / "cgroup.controllers").write_text("cpu memory")
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
        (1, {"memory.limit_in_bytes": "1500000000"}, {"memory.limit_in_bytes": "2000000000"}),
    ],
)
def test_limits_are_those_of_the_lease_and_change_with_it(
    version: int, first: dict[str, str], second: dict[str, str], tmp_path: Path
) -> None:
    groups = ControlGroups(str(group_of(version, tmp_path)))
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
    groups = ControlGroups(str(tmp_path))
    assert list(made(tmp_path)) == ["somebodys"]
    groups.hold("job", 1.0, 1.0)
    (mine,) = tmp_path.glob("gpuyard-*")
    ControlGroups(str(tmp_path))  # another agent leaves it alone
    for file in mine.iterdir():
        file.unlink()  # the kernel's own go with the folder
    groups.drop("job")
    groups.drop("job")
    groups.add("job", 1)
    assert list(made(tmp_path)) == ["somebodys"]


def test_without_a_folder_nobody_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    groups = ControlGroups("")
    groups.hold("job", 1.0, 1.0)
    groups.add("job", 1)
    groups.drop("job")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_no_group_or_takes_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no control group"):
        check_control_group(tmp_path)
    group_of(2, tmp_path)
    check_control_group(tmp_path)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory +cpu"
    assert made(tmp_path) == {}
    (tmp_path / "cgroup.subtree_control").unlink()
    (tmp_path / "cgroup.subtree_control").mkdir()  # cannot be written, whoever asks
    with pytest.raises(InputError, match="takes no groups"):
        check_control_group(tmp_path)
