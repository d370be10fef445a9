"""A snapshot file that is wrong gets one line that names the file, the field, the value and the rule."""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from gpuyard.core.errors import InputError
from gpuyard.policies.snapshot import Snapshot

GOOD: dict[str, Any] = {
    "gpuyard": "snapshot/1",
    "now_s": 100.0,
    "nodes": [
        {"name": "a", "gpus": 2, "cpus": 8, "memory_gb": 100},
        {"name": "b", "gpus": 1, "cpus": 4, "memory_gb": 50},
    ],
    "jobs": [
        {
            "job_id": 1,
            "arrival_s": 0,
            "gpus": 1,
            "iterations": 10,
            "holds": {"gpus": [{"node": "a", "gpu": 0}], "cpus": 3},
        },
        {"job_id": 2, "arrival_s": 5, "gpus": 1, "iterations": 10},
    ],
}

Change = Callable[[Any], object]


def holds(*gpus: tuple[str, int], **amounts: float) -> dict[str, Any]:
    return {"gpus": [{"node": name, "gpu": gpu} for name, gpu in gpus], **amounts}


CHANGES: dict[str, tuple[Change, str]] = {
    "another version": (
        lambda s: s.update(gpuyard="snapshot/9"),
        "'snapshot/9' is not a snapshot of gpuyard: its field gpuyard must be 'snapshot/1'",
    ),
    "no version": (lambda s: s.pop("gpuyard"), "is not a snapshot of gpuyard"),
    "no time": (lambda s: s.pop("now_s"), "field now_s: is missing"),
    "no nodes": (lambda s: s.update(nodes=[]), "field nodes: a snapshot needs at least one node"),
    "no jobs": (lambda s: s.update(jobs=[]), "field jobs: a snapshot needs at least one job"),
    "no GPUs": (lambda s: [one.update(gpus=0) for one in s["nodes"]], "a cluster needs at least one GPU"),
    "a field nobody knows": (lambda s: s["jobs"][1].update(gpu=1), "field jobs.1.gpu: is not a field of a snapshot"),
    "a field that is missing": (lambda s: s["nodes"][1].pop("cpus"), "field nodes.1.cpus: is missing"),
    "a text for a number": (lambda s: s.update(now_s="noon"), "field now_s: 'noon' input should be a valid number"),
    "NaN": (lambda s: s.update(now_s=float("nan")), "field now_s: nan input should be a finite number"),
    "a negative amount": (
        lambda s: s["nodes"][0].update(cpus=-1),
        "field nodes.0.cpus: -1 input should be greater than or equal to 0",
    ),
    "a node that stands twice": (
        lambda s: s["nodes"][1].update(name="a"),
        "field nodes: 'a' stands twice. Give each node a name of its own",
    ),
    "a job that stands twice": (
        lambda s: s["jobs"][1].update(job_id=1),
        "field jobs: 1 stands twice. Give each job an id of its own",
    ),
    "a job without work": (lambda s: s["jobs"][1].pop("iterations"), "a job needs iterations or duration_s"),
    "a job on one and a half GPUs": (
        lambda s: s["jobs"][1].update(gpus=1.5),
        "field gpus: 1.5 must be a whole number of GPUs, or a fraction of one GPU",
    ),
    "a model nobody knows": (
        lambda s: s["jobs"][1].update(model="gmnt"),
        "field model: 'gmnt' is not a model gpuyard has a profile of. Did you mean 'gnmt'",
    ),
    "GPUs of a node that is not there": (
        lambda s: s["jobs"][0].update(holds=holds(("c", 0))),
        "field holds: ['c', 0] is not a GPU that job 1 could hold",
    ),
    "a GPU that the node has not": (
        lambda s: s["jobs"][0].update(holds=holds(("b", 1))),
        "field holds: ['b', 1] is not a GPU that job 1 could hold",
    ),
    "no GPUs held": (
        lambda s: s["jobs"][0].update(holds=holds()),
        "field jobs.0.holds.gpus: [] list should have at least 1 item",
    ),
    "more GPUs than the job has": (
        lambda s: s["jobs"][0].update(holds=holds(("a", 0), ("a", 1))),
        "field holds: contradicts itself: holder 0 cannot take GPUs",
    ),
    "a GPU that two jobs hold": (
        lambda s: s["jobs"][1].update(holds=holds(("a", 0))),
        "field holds: contradicts itself: holder 1 cannot take GPUs",
    ),
    "more CPUs than the node has": (
        lambda s: s["jobs"][0].update(holds=holds(("a", 0), cpus=9)),
        "field holds: contradicts itself",
    ),
    "a holder on a node that is down": (
        lambda s: s["nodes"][0].update(up=False),
        "field holds: contradicts itself: node 0 cannot leave service",
    ),
    "an order that leaves somebody out": (lambda s: s.update(order=[1]), "field order: [1] must name every job once"),
}


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        Snapshot.load(path)
    return str(caught.value)


@pytest.mark.parametrize("what", CHANGES)
def test_one_line_says_what_is_wrong(tmp_path: Path, what: str) -> None:
    change, message = CHANGES[what]
    content = deepcopy(GOOD)
    change(content)
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    told = refusal(path)
    assert told.startswith(str(path))
    assert message in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"{", "is not JSON"), (b"[1]", "is not a snapshot of gpuyard"), (b"\xff\xfe", "cannot be read")],
)
def test_what_is_no_snapshot_at_all(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "snapshot.json"
    path.write_bytes(content)
    assert message in refusal(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.json") == f"{tmp_path / 'none.json'}: cannot be read: No such file or directory"


def test_the_file_that_these_are_made_from_is_right(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(GOOD), encoding="utf-8")
    loaded = Snapshot.load(path)
    assert (loaded.job_id.tolist(), loaded.running.tolist()) == ([1, 2], [True, False])


def test_where_nothing_can_be_written_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(GOOD), encoding="utf-8")
    loaded = Snapshot.load(path)
    (tmp_path / "taken").mkdir()
    with pytest.raises(InputError, match="taken: cannot be written"):
        loaded.save(tmp_path / "taken")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["snapshot.json", "taken"]
