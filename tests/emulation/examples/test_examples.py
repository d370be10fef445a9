"""The scripts of examples/emulation run, and print what the studies found."""

import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuyard.emulation.demo import sharing, stalls

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "emulation"


def test_copies_cost_at_least_what_the_gpu_and_the_profile_say() -> None:
    command = [sys.executable, str(EXAMPLES / "pinning.py")]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=900, check=True).stdout
    found = re.findall(r"^(\w+) +([\d.]+) +([\d.]+) ", printed, flags=re.MULTILINE)
    assert [way for way, _, _ in found] == ["pageable", "pinned", "ahead"]
    expected = [float(cell) for _, _, cell in found]
    assert expected == sorted(expected, reverse=True)
    assert all(float(cell) > 0.95 * least for (_, cell, _), least in zip(found, expected, strict=True))


def test_stalls_are_printed_by_cores_and_by_disk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def throughput(models: tuple[str, ...], loaders: tuple[str, ...]) -> stalls.LoaderRates:
        return {model: {loader: 50.0 if "@" in loader else 200.0 for loader in loaders} for model in models}

    monkeypatch.setattr(stalls, "throughput", throughput)
    runpy.run_path(str(EXAMPLES / "data_stalls.py"))
    printed = capsys.readouterr().out
    assert re.search(r"^12 +200 \(1657\) +200 \(1000\) +200 \(337\)$", printed, flags=re.MULTILINE)
    assert re.search(r"^90 MB/s +75% \(26%\) +75% \(24%\) +75% \(1%\)$", printed, flags=re.MULTILINE)


def test_sharing_is_printed_after_each_arrival(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def rates_as_jobs_arrive(*, steps: int) -> Iterator[list[float]]:
        return ([200.0 / jobs] * jobs for jobs in (1, 2, 3))

    monkeypatch.setattr(sharing, "rates_as_jobs_arrive", rates_as_jobs_arrive)
    monkeypatch.setattr(sharing, "pair", lambda *, steps: sharing.Pair((100, 200), (100, 100)))
    runpy.run_path(str(EXAMPLES / "sharing.py"))
    printed = capsys.readouterr().out
    assert "3   67, 67, 67   (74, 74, 74)" in printed
    assert "One after the other they take 1.33 times as long as together" in printed
