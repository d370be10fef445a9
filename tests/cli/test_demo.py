"""The demo: a table, a report, and what to try next."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gpuyard.cli.demo import ORDERS


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "gpuyard", "demo"]
    return folder, subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=900, check=True)


def test_it_prints_the_table_that_the_readme_shows(demo: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    for order in ORDERS:
        (shown,) = re.findall(rf"^{order}: .*$", readme, flags=re.MULTILINE)
        assert shown in demo[1].stdout.splitlines()


def test_tune_beats_proportional_under_four_orderings(
    demo: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    times_faster = {line.split(":")[0]: float(line.split()[-4]) for line in demo[1].stdout.splitlines() if ":" in line}
    assert list(times_faster) == ["fifo", "srtf", "las", "ftf"]
    assert min(times_faster.values()) > 1.2


def test_it_says_where_the_report_is(demo: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, done = demo
    page = re.search(r"^Report: (.+)$", done.stderr, re.MULTILINE)
    assert page is not None
    assert (folder / page.group(1)).read_text(encoding="utf-8").lower().startswith("<!doctype html")


def test_the_next_three_commands_work(demo: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, done = demo
    commands = [shlex.split(line) for line in done.stderr.split("Try next:\n")[1].splitlines()]
    assert [args[1] for args in commands] == ["compare", "why", "simulate"]
    commands[-1] += ["--jobs", "200"]  # as it stands, it takes as long as the demo
    for program, *args in commands:
        assert program == "gpuyard"
        tried = subprocess.run(
            [sys.executable, "-m", program, *args], capture_output=True, text=True, cwd=folder, timeout=900, check=False
        )
        assert tried.returncode == 0, tried.stderr
        assert tried.stdout
