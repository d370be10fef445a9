"""Results as table, JSON and CSV."""

import csv
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpuyard.cli.output import emit, human

NAN = float("nan")
ROWS = [
    {"policy": "fifo+tune", "jobs": 1000, "mean_jct_h": 21.87660123456789, "p99_jct_h": NAN, "run": Path("runs/a")},
    {"policy": "[srtf]", "jobs": np.int64(7), "mean_jct_h": np.float64(0.1), "p99_jct_h": 1234.5, "run": None},
]  # fmt: skip


def test_json_keeps_every_digit_and_says_null(capsys: pytest.CaptureFixture[str]) -> None:
    emit(ROWS, "json")
    first, second = json.loads(capsys.readouterr().out)
    assert first == {
        "policy": "fifo+tune",
        "jobs": 1000,
        "mean_jct_h": 21.87660123456789,
        "p99_jct_h": None,
        "run": "runs/a",
    }
    assert (second["jobs"], second["mean_jct_h"]) == (7, 0.1)


def test_csv_keeps_every_digit(capsys: pytest.CaptureFixture[str]) -> None:
    emit(ROWS, "csv", columns=["mean_jct_h", "policy", "p99_jct_h"])
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert rows[0] == {"mean_jct_h": "21.87660123456789", "policy": "fifo+tune", "p99_jct_h": ""}


def test_a_table_in_a_pipe_is_plain_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    emit(ROWS, "table")
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "[srtf]" in text
    assert "21.88" in text
    assert "1,234" in text


def test_no_rows_is_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    emit([], "json")
    assert json.loads(capsys.readouterr().out) == []


def test_on_a_terminal_whole_columns_are_left_out_never_digits() -> None:
    code = """
from pathlib import Path
from gpuyard.cli.output import emit
emit([dict(policy="fifo+tune", mean_jct_h=21.8766, p99_jct_h=156.933, run="r" * 40)], "table")
"""
    parent, child = pty.openpty()
    narrow = os.environ | {"COLUMNS": "40"}
    done = subprocess.run([sys.executable, "-c", code], stdout=child, stderr=subprocess.PIPE, env=narrow, check=True)
    os.close(child)
    text = os.read(parent, 10_000).decode()
    os.close(parent)
    assert "156.9" in text
    assert "rrr" not in text
    assert b"Too narrow for run" in done.stderr


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *[(None, "–"), (True, "yes"), (3, "3"), (0.0, "0.00"), (0.01234, "0.0123"), (21.8766, "21.88")],
        *[(156.93, "156.9"), (12345.6, "12,346"), ([1, 2.5], "1, 2.50"), (float("inf"), "–")],
    ],
)
def test_numbers_are_rounded_for_people(value: object, text: str) -> None:
    assert human(value) == text
