"""Programs that import torch, run in processes of their own: torch emulates once per process, and for good."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from uuid import uuid4

import pytest
from tests.emulation.torch.forks import Forks

Finished = subprocess.CompletedProcess[str]


def environment(**settings: str) -> dict[str, str]:
    """The environment without anybody's settings but these, each without its prefix."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUYARD_", "CUDA_", "PYTEST_"))}
    return kept | {name if name.isupper() else "GPUYARD_" + name.upper(): value for name, value in settings.items()}


def emulated(**settings: str) -> dict[str, str]:
    """An environment with emulated GPUs that nobody else uses."""
    return environment(**{"gpus": "V100", "node": f"test-{uuid4().hex[:12]}"} | settings)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Finished]:
    """Run a program with settings; fails if it does, unless `fails` says that it should."""

    def run_program(
        program: str, *, fails: bool = False, env: dict[str, str] | None = None, **settings: str
    ) -> Finished:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", dedent(program)],
            env=emulated(**settings) if env is None else env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stdout[-2000:] + done.stderr[-4000:]
        return done

    return run_program


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """A process that has imported torch and runs programs in forks of itself."""
    pytest.importorskip("torch", reason="torch is not installed")
    made = Forks()
    yield made
    made.close()


@pytest.fixture
def forked(forks: Forks, tmp_path: Path) -> Callable[..., Finished]:
    """Do what `run` does, in a fork of a process that has imported torch: for tests of what happens after that."""

    def run_program(program: str, **settings: str) -> Finished:
        done = forks.run(dedent(program), emulated(**settings), tmp_path)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done

    return run_program
