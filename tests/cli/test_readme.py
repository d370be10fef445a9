"""The README promises what gpuyard does. That its blocks run is tested with the other pages, in tests/docs."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")


def simulate(folder: Path, *args: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "gpuyard", "simulate", "--quiet", "--no-timeline", "--format", "json", *args]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=900, check=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def test_it_starts_with_make_demo_and_make_test() -> None:
    first = re.search(r"```bash\n(.*?)```", README, flags=re.DOTALL)
    assert first is not None
    assert [line.split("#")[0].strip() for line in first.group(1).splitlines()] == ["make demo", "make test"]


def test_the_published_run_is_repeated(tmp_path: Path) -> None:
    (row,) = simulate(tmp_path, "--faithful")
    shown = re.search(r"mean ([\d.]+) h, p99 ([\d.]+) h, p99.9 ([\d.]+) h", README)
    assert shown is not None
    wanted = [float(text) for text in shown.groups()]
    assert [row["mean_jct_h"], row["p99_jct_h"], row["p999_jct_h"]] == pytest.approx(wanted, rel=5e-6)
    told = re.search(r"costs ([\d.]+) CPU seconds", README)
    assert told is not None
    assert row["cpu_seconds"] < 10 * float(told.group(1))
