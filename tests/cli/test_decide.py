"""`gpuyard decide`: what is wrong with its options is one line that names the option or its file."""

import json
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

from gpuyard.cli import main
from gpuyard.core.reasons import WAIT_REASONS

SNAPSHOT = str(ROOT / "examples" / "snapshot.json")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--profiles", "none.yaml"], "error: none.yaml: cannot be read as a profile file"),
        (["--placement", "nope"], "error: field placement: 'nope' is not a placement"),
        (["--placement", "none.py:Near"], "error: none.py, field placement: 'none.py:Near' no such file"),
        (["--starvation", "0"], "error: field starvation: 0.0 must be above 0"),
        (["--starvation", "soon"], "error: field starvation: 'soon' is not a number with a unit"),
        (["--policy", "fifo"], "error: field policy: 'fifo' is not ORDER+ALLOCATE"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_option_is_one_line(
    args: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["decide", SNAPSHOT, *args])
    told = capsys.readouterr()
    assert end.value.code == 2
    assert told.out == ""
    assert told.err.startswith(says)
    assert told.err.count("\n") == 1


def test_who_waits_is_told_with_what_it_lacks_and_what_would_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Job 8 wants four GPUs, of which job 7 has two."""
    with pytest.raises(SystemExit) as end:
        main(["decide", SNAPSHOT, "--format", "json"])
    told = json.loads(capsys.readouterr().out)
    assert not end.value.code
    assert set(told) == {"start", "change", "stop", "wait"}
    [waiting] = told["wait"]
    assert (waiting["job"], waiting["reason"], waiting["free_gpus"], waiting["demand"]["gpus"]) == (8, "gpus", 2.0, 4.0)
    reason = next(each for each in WAIT_REASONS if each.name == "gpus")
    assert (waiting["lacks"], waiting["helps"]) == (reason.lacks, reason.helps)
    with pytest.raises(SystemExit):
        main(["decide", SNAPSHOT])
    shown = capsys.readouterr()
    assert "8  wait" in shown.out
    assert f"{reason.lacks} (2 stay free)" in shown.err
    assert f"What would help: {reason.helps}" in shown.err


def test_what_a_snapshot_holds_twice_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        Path(SNAPSHOT)
        .read_text(encoding="utf-8")
        .replace('"gpus": [{"node": "a", "gpu": 0}', '"gpus": [{"node": "a", "gpu": 0, "gpu_memory_gb": 99}')
    )
    (tmp_path / "now.json").write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit) as end:
        main(["decide", str(tmp_path / "now.json")])
    told = capsys.readouterr().err
    assert end.value.code == 2
    assert "field holds: contradicts itself: 'job 7' cannot take 1000 thousandths of GPU 0, 99 GB of its memory" in told
    assert told.count("\n") == 1


def test_with_nobody_in_the_queue_the_plan_is_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "idle.json"
    nodes = [{"name": "a", "gpus": 4, "cpus": 12, "memory_gb": 250}]
    file.write_text(json.dumps({"gpuyard": "snapshot/1", "now_s": 0, "nodes": nodes, "jobs": []}))
    with pytest.raises(SystemExit) as end:
        main(["decide", str(file), "--format", "json"])
    assert not end.value.code
    assert json.loads(capsys.readouterr().out) == {"start": [], "change": [], "stop": [], "wait": []}
    with pytest.raises(SystemExit) as end:
        main(["decide", str(file)])
    told = capsys.readouterr()
    assert not end.value.code
    assert told.err == "nothing to do: everybody keeps what it has\n"


SHARED = str(ROOT / "examples" / "shared-snapshot.json")


def test_a_multiplex_policy_says_who_would_go_where_and_why_others_wait(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["decide", SHARED, "--policy", "fifo+proportional", "--multiplex", "first-fit", "--format", "json"])
    told = json.loads(capsys.readouterr().out)
    assert [(one["job"], one["gpus"][0]["gpu"]) for one in told["start"]] == [("lab/bert", 0)]
    assert [(one["job"], one["lacks"]) for one in told["wait"]] == [
        ("lab/large", "it needs 12.9 GB of GPU memory; 8.6 GB is the most that is free on a GPU")
    ]
    with pytest.raises(SystemExit):
        main(["decide", SHARED, "--policy", "fifo+proportional", "--multiplex", "exclusive"])
    assert "its memory would fit, but GPUs are not shared" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--multiplex", "nope"], "error: field multiplex: 'nope' is not a multiplex policy"),
        (["--multiplex", "exclusive", "--policy", "fifo+opt"], "error: field policy: 'fifo+opt' cannot be joined"),
    ],
)
def test_a_multiplex_policy_that_cannot_be_is_one_line(
    args: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["decide", SHARED, *args])
    told = capsys.readouterr()
    assert (end.value.code, told.out, told.err.count("\n")) == (2, "", 1)
    assert told.err.startswith(says)
