"""Compiling: announced when it happens, kept for the next process, and never loaded from where others can write."""

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.test_layers import SOURCE

from gpuyard.core.compile_notice import COMPILING, NOT_KEPT
from gpuyard.core.kernel_cache import VARIABLE

BOX = "import numpy as np; from gpuyard.core import kernel; {before}; kernel.box((np.arange(3.0),))"


class Sandbox:
    """A copy of gpuyard's core that is run in processes of its own, with a cache folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "gpuyard"
        self.caches = folder / "caches"
        self.caches.mkdir(mode=0o700)
        shutil.copytree(
            SOURCE / "gpuyard" / "core", self.package / "core", ignore=shutil.ignore_patterns("__pycache__")
        )
        for name in ("__init__.py", "_version.py"):
            shutil.copy(SOURCE / "gpuyard" / name, self.package / name)
        (self.package / "__pycache__").write_text("")  # so that nothing can be written there, by root neither

    def run(self, before: str = "pass", program: str = BOX) -> str:
        """What a program says on stderr that compiles, or loads, a kernel."""
        environment = {**os.environ, "PYTHONPATH": str(self.package.parent), "XDG_CACHE_HOME": str(self.caches)}
        environment.pop(VARIABLE, None)
        command = [sys.executable, "-c", program.format(before=before)]
        done = subprocess.run(
            command, cwd=self.package.parent, env=environment, capture_output=True, text=True, check=True
        )
        return done.stderr

    def indexes(self) -> list[Path]:
        """The files that numba unpickles first."""
        return sorted(self.caches.rglob("*.nbi"))


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path)


ANOTHER = "kernel.box((np.arange(3),)); kernel.box((np.ones(3, dtype=bool),))"


def test_compiling_is_announced_once_and_loading_is_not(sandbox: Sandbox) -> None:
    assert sandbox.run(ANOTHER) == f"{COMPILING}\n"
    assert sandbox.run(ANOTHER) == ""


def test_compiling_is_announced_when_only_a_part_is_missing(sandbox: Sandbox) -> None:
    sandbox.run()
    assert sandbox.run(ANOTHER) == f"{COMPILING}\n"


def test_installations_of_the_same_sources_share_what_one_of_them_compiled(sandbox: Sandbox, tmp_path: Path) -> None:
    """Wherever they are and whenever their files were written: a note that all is compiled holds for all of them."""
    (tmp_path / "another").mkdir()
    another = Sandbox(tmp_path / "another")
    another.caches = sandbox.caches
    for file in another.package.rglob("*.py"):
        os.utime(file, (0, 0))
    assert sandbox.run() == f"{COMPILING}\n"
    assert another.run() == ""


def test_quiet_is_quiet(sandbox: Sandbox) -> None:
    assert sandbox.run("kernel.NOTICE.quiet = True") == ""


def test_what_others_compile_is_not_announced(sandbox: Sandbox) -> None:
    program = "import numba; from gpuyard.core import kernel; numba.njit(lambda: 1)(); {before}"
    assert sandbox.run(program=program) == ""


def test_without_a_safe_folder_it_compiles_and_says_why_it_will_again(sandbox: Sandbox) -> None:
    sandbox.caches.chmod(0o777)
    for _ in range(2):
        assert sandbox.run() == f"{COMPILING}\n{NOT_KEPT}\n"


class Plant:
    """Unpickling this writes a file: what an attacker's file could do."""

    def __init__(self, victim: Path) -> None:
        self.victim = victim

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.victim,)


@pytest.mark.parametrize(("mode", "loaded"), [(0o700, True), (0o777, False)])
def test_planted_files_are_not_loaded(sandbox: Sandbox, tmp_path: Path, mode: int, loaded: bool) -> None:
    """Where only the user can write the same file is loaded, which shows that the plant would work."""
    sandbox.run()
    victim = tmp_path / "victim"
    assert sandbox.indexes()
    for index in sandbox.indexes():
        index.write_bytes(pickle.dumps(Plant(victim)))
    sandbox.caches.chmod(mode)
    sandbox.run()
    assert victim.exists() is loaded
