"""Tasks on processes: results as they come, errors told, nothing left running."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from gpuyard.core.errors import GpuyardError, InputError, MissingExtraError
from gpuyard.simulation.pool import ReportShare, run_all


def square(number: int, report: ReportShare) -> int:
    report(0.5)
    return number * number


def fail(kind: str, report: ReportShare) -> None:
    errors: dict[str, Exception] = {
        "input": InputError("must be positive", field="gpus", value=-1),
        "extra": MissingExtraError("x", "ray"),
        "disk": OSError(errno.ENOSPC, "No space left on device", "/x"),
        "bug": ZeroDivisionError("oops"),
    }
    raise errors[kind]


def die(number: int, report: ReportShare) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("processes", [1, 2])
def test_every_task_gives_one_outcome_and_progress_reaches_the_end(processes: int) -> None:
    heard: list[float] = []
    outcomes = list(run_all(square, [1, 2, 3, 4, 5], processes=processes, progress=heard.append))
    assert {outcome.index: outcome.result() for outcome in outcomes} == {0: 1, 1: 4, 2: 9, 3: 16, 4: 25}
    assert heard[-1] == 5
    assert any(share % 1 for share in heard)


def test_no_task_is_no_work() -> None:
    assert list(run_all(square, [])) == []


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_is_one_task_s_outcome_and_the_others_go_on(processes: int) -> None:
    kinds = ["input", "extra", "disk", "bug"]
    errors = {kinds[o.index]: o.error for o in run_all(fail, kinds, processes=processes)}
    assert isinstance(errors["input"], InputError)
    assert str(errors["input"]) == "field gpus: -1 must be positive"
    assert isinstance(errors["extra"], GpuyardError)
    assert "pip install 'gpuyard[ray]'" in str(errors["extra"])
    assert isinstance(errors["disk"], OSError)
    assert errors["disk"].errno == errno.ENOSPC
    assert "oops" in str(errors["bug"])


def test_a_worker_that_dies_is_an_error_not_a_hang() -> None:
    with pytest.raises(GpuyardError, match="SIGKILL"):
        list(run_all(die, [1, 2], processes=2))


SCRIPT = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    from gpuyard.simulation.pool import run_all

    def work(task, report):
        mark = Path(sys.argv[1]) / f"partial-{task}"
        try:
            mark.write_text("")
            time.sleep(0 if task == 0 else 3600)
        finally:
            mark.unlink()
        return task

    if __name__ == "__main__":
        try:
            for outcome in run_all(work, [0, 1, 2], processes=2):
                print("done", outcome.result(), flush=True)
        except KeyboardInterrupt:
            print("stopped", flush=True)
    """
)


@contextmanager
def two_at_work(folder: Path) -> Iterator[tuple[subprocess.Popen[str], IO[str], Path]]:
    """A process with two workers in the middle of their tasks, what it prints, and a file for each of these tasks."""
    script, marks = folder / "script.py", folder / "marks"
    script.write_text(SCRIPT)
    marks.mkdir()
    process = subprocess.Popen(
        [sys.executable, script, marks], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    with process.stdout as stdout:
        assert stdout.readline() == "done 0\n"
        while len(list(marks.iterdir())) < 2:
            time.sleep(0.02)
        yield process, stdout, marks


def test_an_interrupt_keeps_what_is_done_and_cleans_up(tmp_path: Path) -> None:
    with two_at_work(tmp_path) as (process, stdout, marks):
        os.killpg(process.pid, signal.SIGINT)
        assert stdout.read() == "stopped\n"
    assert process.wait(900) == 0
    assert list(marks.iterdir()) == []


def test_workers_clean_up_and_end_when_whoever_started_them_was_killed(tmp_path: Path) -> None:
    with two_at_work(tmp_path) as (process, stdout, marks):
        os.kill(process.pid, signal.SIGKILL)
        assert stdout.read() == ""  # that is, once nobody has it open any more
    process.wait()
    assert list(marks.iterdir()) == []
