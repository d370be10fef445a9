"""`gpuyard logs`."""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, TextIO

import typer

from gpuyard.cli.queue import StateOption

LOOK_S = 0.2
BLOCK = 1 << 16


def logs(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Its id.")],
    *,
    state: StateOption = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job is over.")] = False,
) -> None:
    """Print what the processes of a job wrote, in all attempts; of several processes, one after the other."""
    from gpuyard.core.errors import InputError
    from gpuyard.runtime.addresses import find_scheduler
    from gpuyard.runtime.launching import job_folder

    folder = state if state is not None and not follow else Path(find_scheduler(state).state)
    with ExitStack() as files:
        written = _Written(job_folder(folder, job), files)
        over = not follow or (not written.files() and _over(job, state))
        if over and not written.files():
            raise InputError("has written nothing, or is no job of this run", field="job", value=job)
        written.print_rest()
        while not over:
            time.sleep(LOOK_S)
            over = _over(job, state)
            written.print_rest()  # what it wrote up to its end, too


class _Written:
    """What the processes of a job write, each to a file of its own."""

    def __init__(self, home: Path, opened: ExitStack) -> None:
        self._home, self._opened = home, opened
        self._open: dict[Path, TextIO] = {}
        self._last: Path | None = None
        """Whose words were printed last."""

    def files(self) -> list[Path]:
        """One for each process that there ever was, in their order."""
        return sorted(self._home.glob("log*"), key=_process_of)

    def print_rest(self) -> None:
        """Print what is new; of several processes, whose words these are stands above them."""
        files = self.files()
        for path in files:
            if path not in self._open:
                self._open[path] = self._opened.enter_context(path.open(errors="replace"))
            if not (begin := self._open[path].read(BLOCK)):
                continue
            if len(files) > 1 and path != self._last:
                print(f"==> process {_process_of(path)} <==")
            self._last = path
            sys.stdout.write(begin)
            shutil.copyfileobj(self._open[path], sys.stdout)
        sys.stdout.flush()


def _process_of(path: Path) -> int:
    return int(path.suffix.removeprefix(".") or 0)


def _over(job: str, state: Path | None) -> bool:
    from gpuyard.core.errors import GpuyardError
    from gpuyard.runtime.addresses import find_scheduler
    from gpuyard.runtime.asking import queue_of
    from gpuyard.runtime.records import JobState

    try:
        states = {each.job: each.state for each in queue_of(find_scheduler(state)).jobs}
    except GpuyardError:
        return True
    return job not in states or JobState(states[job]).over
