"""What a program did on its GPUs: each process writes its part, and the parts add up."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpuyard.emulation.launch import summary
from gpuyard.emulation.report import combine
from gpuyard.emulation.session import Session
from gpuyard.emulation.settings import Settings

MIB = 1 << 20


def session(folder: Path) -> Session:
    return Session(Settings("2xV100", clock="device", report=str(folder)))


def written(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("*.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def test_a_process_that_used_gpus_says_what_it_did(tmp_path: Path) -> None:
    used = session(tmp_path)
    for index, seconds in ((0, 2.0), (1, 3.0)):
        used.gpu(index).launch(seconds)
        used.gpu(index).memory.give_back(used.gpu(index).memory.take((index + 1) * 10 * MIB))
        used.gpu(index).synchronize()
    used.report.steps = 7
    used.report.used_profile("profile vgg11 (measured)", 4.0, 0.02)
    used.close()
    part = written(tmp_path)
    assert part["gpus"] == [0, 1]
    assert part["device_seconds"] == pytest.approx(5.0)
    assert part["emulated_seconds"] == pytest.approx(part["waited_seconds"])
    assert part["peak_memory_bytes"] == 20 * MIB
    assert part["peak_reserved_bytes"] >= part["peak_memory_bytes"]
    assert (part["steps"], part["kernels"]) == (7, 2)
    assert part["duration_models"]["profile vgg11 (measured)"] == 4.0
    assert sum(part["duration_models"].values()) == pytest.approx(5.0)
    assert part["expected_error"] == 0.02


def test_work_that_was_queued_and_never_done_does_not_count(tmp_path: Path) -> None:
    used = session(tmp_path)
    used.gpu(0).launch(2.0)
    used.gpu(0).synchronize()
    used.gpu(0).launch(100.0)
    used.close()
    assert written(tmp_path)["device_seconds"] == pytest.approx(2.0, rel=1e-3)


def test_a_process_that_used_no_gpu_says_nothing(tmp_path: Path) -> None:
    session(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


def part(**changes: Any) -> dict[str, Any]:
    return {
        "pid": 1, "rank": 0, "started_here": 1.0, "gpus": [0],
        "emulated_seconds": 10.0, "device_seconds": 8.0, "waited_seconds": 5.0,
        "peak_memory_bytes": 100, "peak_reserved_bytes": 200, "kernels": 50, "steps": 5,
        "duration_models": {"costs": 1.0, "profile": 7.0}, "expected_error": 0.01, "notices": [],
    } | changes  # fmt: skip


def test_the_parts_of_all_processes_are_put_together(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text(json.dumps(part()), encoding="utf-8")
    other = part(
        pid=2, rank=1, device_seconds=3.0, peak_memory_bytes=900, duration_models={"costs": 30.0}, expected_error=None
    )
    (tmp_path / "2.json").write_text(json.dumps(other), encoding="utf-8")
    (tmp_path / "3.part").write_text("{", encoding="utf-8")  # of a process that was killed while it wrote
    report = combine(tmp_path, "2xV100", ["V100", "V100"], wall_seconds=11.0)
    assert report["gpu"] == "V100"
    assert (report["wall_seconds"], report["emulated_seconds"], report["device_seconds"]) == (11.0, 10.0, 11.0)
    assert (report["peak_memory_bytes"], report["kernels"], report["steps"]) == (900, 100, 5)
    assert report["duration_models"] == {"costs": 31.0, "profile": 7.0}
    assert (report["duration_model"], report["expected_error"]) == ("costs", 0.01)
    assert len(report["processes"]) == 2
    assert "5 steps on 2xV100: 11.00 s of GPU time in 10.00 s (11.00 s here)" in summary(report)
    assert "expect an error of about 1.0%" in summary(report)


def test_a_command_without_gpu_processes_gets_advice(tmp_path: Path) -> None:
    report = combine(tmp_path, "V100", ["V100"], wall_seconds=1.0)
    assert report["device_seconds"] == report["steps"] == report["peak_memory_bytes"] == 0
    assert report["duration_model"] == "none"
    assert "no process of the command used an emulated GPU" in summary(report)
