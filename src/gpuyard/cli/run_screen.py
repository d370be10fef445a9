"""What `gpuyard run` shows on stderr while it runs: a screen on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswerError
from types import TracebackType
from typing import TYPE_CHECKING

from gpuyard.cli.progress import clock_face

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from gpuyard.runtime.run_view import JobView, RunView

SCREEN_EVERY_S = 1.0
LINE_EVERY_S = 30.0
MARGIN = 5
"""Rows of a terminal that are not jobs."""


class RunScreen:
    """Asks how the run is, and shows it, in a thread of its own until the run is over."""

    def __init__(self, ask: Callable[[], Future[RunView]], *, quiet: bool, console: Console | None = None) -> None:
        from rich.console import Console

        self._ask, self._quiet = ask, quiet
        self._console = console or Console(file=sys.stderr, highlight=False)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="screen", daemon=True)

    def __enter__(self) -> RunScreen:
        if not self._quiet:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if not self._quiet:
            self._thread.join()

    def _watch(self) -> None:
        if not self._console.is_terminal:
            self._repeat(LINE_EVERY_S, lambda view: self._console.print(line(view), soft_wrap=True))
            return
        from rich.live import Live

        with Live(console=self._console, transient=True, auto_refresh=False) as live:
            self._repeat(SCREEN_EVERY_S, lambda view: live.update(screen(view, self._console.height), refresh=True))

    def _repeat(self, every_s: float, show: Callable[[RunView], None]) -> None:
        while not self._over.wait(every_s):
            answer = self._ask()
            while not self._over.is_set():
                try:
                    show(answer.result(every_s))
                    break
                except NoAnswerError:
                    continue  # it decides, or is about to end


def line(view: RunView) -> str:
    """The run in one line."""
    return (
        f"{clock_face(view.now_s)} of the run: {view.running} run, {view.waiting} wait, "
        f"{view.over} of {view.total} are over; at least {clock_face(view.left_s)} left"
    )


def screen(view: RunView, height: int) -> RenderableType:
    """The line, and below it a row for each job, as many as there is room for."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table("job", "state", "where", box=box.SIMPLE_HEAD)
    for heading in ("steps", "done", "left"):
        table.add_column(heading, justify="right")
    table.add_column("why")
    room = max(height - MARGIN, 1)
    for job in view.jobs[:room]:
        table.add_row(*map(Text, _cells(job)))
    more = len(view.jobs) - room
    return Group(Text(line(view)), table, *([Text(f"… and {more} more")] if more > 0 else []))


def _cells(job: JobView) -> tuple[str, ...]:
    share = f"{job.done_steps / job.total_steps:.0%}" if job.total_steps > 0 else ""
    left = "" if job.left_s is None else clock_face(job.left_s)
    return job.job, job.state, job.places or f"{job.gpus:g} GPU", f"{job.done_steps:,}", share, left, job.reason
