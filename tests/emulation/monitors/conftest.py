"""Real processes at a real emulated node, and programs that watch them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.native.compiling import compile_strictly

from gpuyard.emulation import nvml
from gpuyard.emulation.node import live_nodes

HERE = Path(__file__).parent
GIB = 2**30


@dataclass
class Yard:
    """A node of two V100s. It lives while a process uses it."""

    library: Path
    node: str = field(default_factory=lambda: f"monitors-{uuid4().hex[:8]}")
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, gpu: int, gib: float = 1.0, work_s: float = 0.0) -> subprocess.Popen[str]:
        """Start a process that holds memory of a GPU and has work queued for it."""
        command = [sys.executable, str(HERE / "job.py"), self.node, str(gpu), str(int(gib * GIB)), str(work_s)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    def stop(self) -> None:
        """Kill everybody, and remove what they leave behind."""
        for process in self.processes:
            process.kill()
            process.communicate()
        self.processes.clear()
        live_nodes()

    def environment(self, **extra: str) -> dict[str, str]:
        """What a program needs to find the library and the node."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GPUYARD_")}
        return {**clean, "LD_LIBRARY_PATH": str(self.library.parent), "GPUYARD_NODE": self.node, **extra}

    def ask(self, program: str, arguments: Sequence[str] = (), **environment: str) -> Any:
        """Run a program and return what it says in JSON on its last line."""
        return self.run(["-c", program, *arguments], **environment)

    def run(self, arguments: Sequence[str], **environment: str) -> Any:
        """Run Python with these arguments and return what it says in JSON on its last line."""
        done = subprocess.run(
            [sys.executable, *arguments],
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    @contextmanager
    def watching(self, program: str) -> Iterator[subprocess.Popen[str]]:
        """Run a program beside the test."""
        with subprocess.Popen(
            [sys.executable, "-c", program], env=self.environment(), stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library as its source is now, compiled without a single warning."""
    return compile_strictly(nvml.LIBRARY, tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def yard(library: Path) -> Iterator[Yard]:
    """A node's name that nobody else uses, and the means to fill it with processes."""
    made = Yard(library)
    yield made
    made.stop()
