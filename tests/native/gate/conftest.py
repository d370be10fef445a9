"""Groups of their own for each test."""

import subprocess
from pathlib import Path

import pytest

from gpuyard.sharing.group import Group

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the files of groups, in place of the machine's."""
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setenv("GPUYARD_SHM", str(folder))
    return folder


@pytest.fixture
def group(shared_memory: Path) -> Group:
    return Group("test")


@pytest.fixture(scope="session")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that is killed in a phase of its choice: the gate's own sources, and the test's."""
    made = tmp_path_factory.mktemp("killed") / "killed"
    native = ROOT / "native"
    sources = [Path(__file__).with_name("killed.c"), *(native / "gate").glob("*.c"), *(native / "node").glob("*.c")]
    flags = ["-std=c11", "-O1", "-pthread", "-Wall", "-Wextra", f"-I{native / 'gate'}", f"-I{native / 'node'}"]
    subprocess.run(["cc", *flags, *map(str, sources), "-lm", "-o", str(made)], check=True)
    return made
