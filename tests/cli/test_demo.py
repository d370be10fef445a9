"""The demo: a table, a report, and what to try next."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "gpuyard", "demo", "--format", "json"]
    return folder, subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=900, check=True)


def test_tune_beats_proportional_under_four_orderings(
    demo: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    rows = json.loads(demo[1].stdout)
    assert [row["order"].split(":")[0] for row in rows] == ["fifo", "srtf", "las", "ftf"]
    assert all(row["times_faster"] > 1.2 for row in rows)


def test_it_says_where_the_report_is(demo: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, done = demo
    page = re.search(r"^Report: (.+)$", done.stderr, re.MULTILINE)
    assert page is not None
    assert (folder / page.group(1)).read_text(encoding="utf-8").lower().startswith("<!doctype html")


def test_the_next_three_commands_work(demo: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, done = demo
    commands = [shlex.split(line) for line in done.stderr.split("Try next:\n")[1].splitlines()]
    assert len(commands) == 3
    for program, *args in commands:
        assert program == "gpuyard"
        tried = subprocess.run(
            [sys.executable, "-m", program, *args], capture_output=True, text=True, cwd=folder, timeout=900, check=False
        )
        assert tried.returncode == 0, tried.stderr
        assert tried.stdout
