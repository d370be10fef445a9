"""A save that fails half-way, in a real process, leaves nothing that looks like a run."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuyard.results import load_run
from gpuyard.results.writing import put_in_place

from .builder import three_jobs

PRELUDE = """
import resource, sys
import numpy as np, polars as pl
from pathlib import Path
from gpuyard.core.errors import GpuyardError
from gpuyard.results import Run, load_run
run = load_run(sys.argv[1])
rows = int(sys.argv[3])
rng = np.random.default_rng(0)
noise = run.timeline.sample(rows, with_replacement=True, seed=1).with_columns(start_s=pl.Series(rng.random(rows)))
big = Run(run.info, {"jobs": run.jobs, "timeline": noise}, run.summary)
"""

FILE_TOO_LARGE = (
    PRELUDE
    + """
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    big.save(sys.argv[2], overwrite=True)
except GpuyardError as error:
    print(error)
    sys.exit(3)
"""
)

ENDLESS = (
    PRELUDE
    + """
print("saving", flush=True)
while True:
    big.save(sys.argv[2], overwrite=True)
"""
)


def command(program: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", program, *map(str, arguments)]


def finish(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=900)


def leftovers(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.name != "source")


def test_a_full_disk_gives_one_clear_error_and_leaves_nothing(tmp_path: Path) -> None:
    three_jobs().save(tmp_path / "source")
    arguments = (tmp_path / "source", tmp_path / "new", 200_000)
    done = finish(command(FILE_TOO_LARGE, *arguments))
    assert done.returncode == 3, done.stderr
    assert str(tmp_path / "new") in done.stdout
    assert "could not be written" in done.stdout
    assert "free some space" in done.stdout
    assert leftovers(tmp_path) == []


def test_a_full_disk_keeps_the_run_that_was_to_be_replaced(tmp_path: Path) -> None:
    three_jobs().save(tmp_path / "source")
    three_jobs(seed=7).save(tmp_path / "new")
    arguments = (tmp_path / "source", tmp_path / "new", 200_000)
    done = finish(command(FILE_TOO_LARGE, *arguments))
    assert done.returncode == 3, done.stderr
    assert load_run(tmp_path / "new").info["seed"] == 7
    assert leftovers(tmp_path) == ["new"]


@pytest.mark.parametrize("delay", [0.0, 0.03, 0.11, 0.2])
def test_an_interrupt_leaves_a_whole_run_or_none(tmp_path: Path, delay: float) -> None:
    three_jobs().save(tmp_path / "source")
    with subprocess.Popen(
        command(ENDLESS, tmp_path / "source", tmp_path / "new", 300_000), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"saving\n"
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=900)
    assert b"KeyboardInterrupt" in error
    assert leftovers(tmp_path) in ([], ["new"])
    if (tmp_path / "new").exists():
        assert load_run(tmp_path / "new").timeline.height == 300_000


def test_a_run_that_cannot_be_replaced_is_back_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "old").touch()
    with pytest.raises(FileNotFoundError):
        put_in_place(tmp_path / "gone", tmp_path / "run", tmp_path / ".aside")
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))] == ["run", "run/old"]
