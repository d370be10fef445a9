"""`gpuyard share` runs experiments, prints how each job fared, and keeps runs that the other commands read."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from gpuyard.cli import main
from gpuyard.results import load_run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "sharing"
FIELDS = [
    "policy",
    "job",
    "priority",
    "jobs_done",
    "jct_ms_p50",
    "jct_ms_p99",
    "alone_ms_p50",
    "slowdown",
    "preemptions",
]


def gpuyard(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    return int(ended.value.code or 0)


@pytest.fixture
def trade_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "trade-off.json"
    path.write_text((EXAMPLES / "trade-off.json").read_text())
    return path


def shared(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[tuple[str, str], dict[str, Any]]:
    """What is printed, by policy and job."""
    assert gpuyard("share", *arguments, "--format", "json", "--no-figures", "--quiet") == 0
    rows = json.loads(capsys.readouterr().out)
    return {(row["policy"], row["job"]): row for row in rows}


def test_the_trade_off_of_the_study(trade_off: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A 3 ms job beside one of 60 ms, on a device that runs what is queued in order."""
    intervals = ["4", "7", "10", "never"]
    found = shared(capsys, trade_off, "--policy", "priority", "--sync-every", ",".join(intervals))
    ungated = shared(capsys, trade_off, "--policy", "none")
    assert ungated["none", "urgent"]["jct_ms_p50"] == pytest.approx(43, abs=0.5)
    assert found["priority:sync=never", "urgent"]["jct_ms_p50"] == pytest.approx(43, abs=0.5)
    for every in intervals[:-1]:
        urgent, background = (found[f"priority:sync={every}", name] for name in ("urgent", "background"))
        assert urgent["jct_ms_p50"] < 4.5
        assert background["slowdown"] <= 1.4
        assert background["preemptions"] > 0
        assert urgent["alone_ms_p50"] == pytest.approx(3.0, rel=0.01)
        assert background["alone_ms_p50"] == pytest.approx(60.0, rel=0.01)


def test_what_is_printed_and_kept(trade_off: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpuyard("share", trade_off, "--sync-every", "4", "--out", "here", "--seconds", "2", "--format", "json") == 0
    told = capsys.readouterr()
    rows = json.loads(told.out)
    assert [list(row) for row in rows] == [FIELDS, FIELDS]
    run = load_run("here/share-trade-off-priority_sync_4-seed1")
    assert run.summary["jobs_done"] == sum(row["jobs_done"] for row in rows)
    assert run.info["experiment"] == "trade-off.json"
    with Path("here/share-trade-off-priority_sync_4-seed1-logs/urgent.csv").open() as file:
        log = list(csv.DictReader(file))
    assert list(log[0]) == [
        "start_timestamp_ns", "end_timestamp_ns", "jct_ms", "max_allocated_gpu_memory_allocated_byte",
        "max_reserved_gpu_memory_byte",
    ]  # fmt: skip
    assert len(log) == rows[1]["jobs_done"] + 1  # the first is there, and left out of figures
    for row in log:
        lasted_ms = (int(row["end_timestamp_ns"]) - int(row["start_timestamp_ns"])) / 1e6
        assert float(row["jct_ms"]) == pytest.approx(lasted_ms, abs=1e-5)
    figures = Path("here/share-trade-off-figures")
    assert {"report.html", "slowdown.png", "jct-ms-cdf.png"} <= {each.name for each in figures.iterdir()}


def test_runs_can_be_reported_and_compared(trade_off: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpuyard("share", trade_off, "--policy", "none", "--policy", "reef", "--seconds", "2", "--quiet") == 0
    assert Path("runs/share-trade-off-figures/trade-off.png").exists()
    runs = [f"runs/share-trade-off-{policy}-seed1" for policy in ("none", "reef")]
    capsys.readouterr()
    assert gpuyard("compare", *runs) == 0
    told = capsys.readouterr()
    assert "urgent p50, ms" in told.out
    assert "Urgent jobs take 3.7" in told.err
    assert gpuyard("report", *runs, "--out", "page", "--quiet") == 0
    assert "Sharing a GPU" in Path("page/report.html").read_text()


def test_the_same_run_twice_has_the_same_tables(trade_off: Path) -> None:
    for _ in range(2):
        assert gpuyard("share", trade_off, "--sync-every", "8", "--seconds", "1", "--no-figures", "-q") == 0
    first, second = (Path(f"runs/share-trade-off-priority_sync_8-seed1{again}") for again in ("", "-2"))
    for name in ("completions.parquet", "processes.parquet", "summary.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_any_number_of_priorities(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = shared(capsys, EXAMPLES / "three-levels.yaml", "--out", tmp_path, "--seconds", "2")
    slowdowns = [found["priority:sync=8", name]["slowdown"] for name in ("training", "batch", "camera")]
    assert all(1.0 <= each < 2.0 for each in slowdowns)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("nowhere.json",), "nowhere.json: does not exist"),
        (("trade-off.json", "--policy", "deft"), "field policy: 'deft' is not a policy of launching"),
        (("trade-off.json", "--sync-every", "4,0"), "field launch, sync: '0' is not a number of launches"),
        (("trade-off.json", "--policy", "reef", "--sync-every", "4"), "'sync' is not an option of reef"),
        (("trade-off.json", "--sharing", "turns"), "field sharing: 'turns' is not a sharing policy"),
        (("trade-off.json", "--sharing", "partition"), "promises 2 of a GPU to its 2 jobs"),
        (("trade-off.json", "--seconds", "0"), "field seconds: 0.0 must be a finite number"),
        (("trade-off.json", "--world", "moon"), "'moon'"),
        (("trade-off.json", "--speed", "2"), "field speed: 2.0 must be 1 in the simulated world"),
    ],
)
def test_wrong_input_is_one_line_and_leaves_nothing(
    trade_off: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], complaint: str
) -> None:
    assert gpuyard("share", *arguments) == 2
    told = capsys.readouterr().err
    assert complaint in told
    assert told.count("\n") == 1
    assert [each.name for each in trade_off.parent.iterdir()] == ["trade-off.json"]


def test_the_interval_is_predicted(trade_off: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (trade_off.parent / "kernels.json").write_text(
        json.dumps({"gpuyard": "kernels/1", "durations_us": [727] * 246, "longest_queue": 200})
    )
    assert gpuyard("share", "predict", "kernels.json", trade_off, "--format", "json") == 0
    rows = json.loads(capsys.readouterr().out)
    # 246 kernels of 0.727 ms: N = 2, a queue of 1.454 ms, and 123 x 0.0115 + 2.92 ms.
    assert [(row["job"], row["sync_every"]) for row in rows] == [("kernels", 2), ("background", 2), ("urgent", 2)]
    assert rows[0]["preemption_delay_ms"] == pytest.approx(1.454)
    assert rows[0]["execution_delay_ms"] == pytest.approx(4.3345)


def test_a_trace_is_profiled_and_used(trade_off: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = "API Start (ns),Kernel Start (ns),Kernel Dur (ns),PID,Kernel Name\n"
    rows = "".join(f"{100 * n},{1000 + 300000 * n},300000,5,conv\n" for n in range(400))
    Path("trace.csv").write_text(header + rows)
    assert gpuyard("share", "profile", "trace.csv", "--jobs", "2", "-o", "kernels.json", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)[0]["kernels"] == 200
    content = json.loads(trade_off.read_text())
    del content["models"][0]["kernels"], content["models"][0]["kernel_ms"]
    content["models"][0]["sequence"] = "kernels.json"
    trade_off.write_text(json.dumps(content))
    found = shared(capsys, trade_off, "--seconds", "1")
    assert found["priority", "background"]["alone_ms_p50"] == pytest.approx(60.0, rel=0.01)


def test_pairs_are_written_and_run(trade_off: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = "retinanet_resnet50_fpn"
    narrow = ("--model", model, "--batches", "1", "--urgent-batches", "1", "--sync-every", "20", "--seconds", "20")
    assert gpuyard("share", "pairs", "pairs", *narrow) == 0
    assert capsys.readouterr().err == "1 experiments in pairs\n"
    (file,) = (trade_off.parent / "pairs").rglob("*.json")
    found = shared(capsys, file)
    assert found["priority", "model_B"]["jobs_done"] >= 8
