"""What `gpuyard run` shows while it runs."""

import io
from concurrent.futures import Future
from pathlib import Path

import pytest
from rich.console import Console
from tests.runtime.virtual_yard import VirtualYard

from gpuyard.cli import run_screen
from gpuyard.cli.run_screen import RunScreen, line, screen
from gpuyard.core.workload import Job, Workload
from gpuyard.policies.resolve import resolve
from gpuyard.profiles import load_zoo
from gpuyard.runtime.run_view import RunView, view_of
from gpuyard.traces import read_cluster

JOBS = [
    Job("runs", 0.0, 1, "resnet50", duration_s=7200.0),
    Job("done", 0.0, 1, "resnet50", duration_s=600.0),
    Job("wide", 0.0, 2, "resnet50", duration_s=3600.0),
]


def seen_after_half_an_hour(folder: Path) -> RunView:
    yard = VirtualYard(read_cluster("1x2:cpus=6,memory=125GB"), load_zoo(), folder)
    found = []

    def look() -> None:
        yard.agents.report_all()
        yard.world.hear()
        found.append(view_of(yard.world, yard.clock.now()))

    yard.clock.at(1800.0, look)
    yard.run(Workload.from_jobs(JOBS), resolve("fifo+proportional"))
    return found[0]


def printed(what: object) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(what)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_it_says_who_runs_where_and_how_far_who_waits_and_how_long_it_takes_at_the_least(tmp_path: Path) -> None:
    view = seen_after_half_an_hour(tmp_path)
    assert line(view) == "30:00 of the run: 1 run, 1 wait, 1 of 3 are over; at least 1:45:00 left"
    rows = [each.split() for each in printed(screen(view, 24)).splitlines()]
    runs = next(row for row in rows if row[:1] == ["runs"])
    assert [*runs[:3], *runs[4:]] == ["runs", "running", "node0:0", "25%", "1:30:01"]
    assert next(row for row in rows if row[:1] == ["wide"])[1:] == ["waiting", "2", "GPU", "0", "0%", "1:00:00", "gpus"]


def test_a_small_terminal_shows_as_many_jobs_as_fit(tmp_path: Path) -> None:
    shown = printed(screen(seen_after_half_an_hour(tmp_path), 6))
    assert "runs" in shown
    assert "wide" not in shown
    assert "… and 1 more" in shown


def test_where_nobody_watches_there_are_lines_until_it_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = seen_after_half_an_hour(tmp_path)
    monkeypatch.setattr(run_screen, "LINE_EVERY_S", 0.001)
    console = Console(file=io.StringIO(), width=40)
    asked: list[Future[RunView]] = []

    def ask() -> Future[RunView]:
        asked.append(Future())
        if len(asked) == 2:
            shown._over.set()  # the run ends, and nobody answers any more
        else:
            asked[-1].set_result(view)
        return asked[-1]

    with RunScreen(ask, quiet=False, console=console) as shown:
        shown._thread.join()
    assert console.file.getvalue() == line(view) + "\n"  # type: ignore[attr-defined]
