"""A snapshot file that is wrong gets one line that names the file, the field, the value and the rule."""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import ROOT

from gpuyard.core.errors import InputError
from gpuyard.policies.snapshot import Snapshot
from gpuyard.policies.snapshot_files import read_facts

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
        "'snapshot/9' is not a snapshot of gpuyard: its field gpuyard must be 'snapshot/2'",
    ),
    "no version": (lambda s: s.pop("gpuyard"), "is not a snapshot of gpuyard"),
    "no time": (lambda s: s.pop("now_s"), "field now_s: is missing"),
    "no nodes": (lambda s: s.update(nodes=[]), "field nodes: a snapshot needs at least one node"),
    "no GPUs": (
        lambda s: [s["jobs"][0].pop("holds"), *(n.update(gpus=0) for n in s["nodes"])],
        "a cluster needs at least one GPU",
    ),
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
        "field holds of job 1: 'c' is not one of the nodes",
    ),
    "a GPU that the node has not": (
        lambda s: s["jobs"][0].update(holds=holds(("b", 1))),
        "field holds of job 1: 1 is not a GPU of node b, which has 1, counted from 0",
    ),
    "no GPUs held": (
        lambda s: s["jobs"][0].update(holds=holds()),
        "field jobs.0.holds.gpus: [] list should have at least 1 item",
    ),
    "more GPUs than the job has": (
        lambda s: s["jobs"][0].update(holds=holds(("a", 0), ("a", 1))),
        "field holds of job 1: 'a:0 a:1' is not as many GPUs as the job needs, 1",
    ),
    "a GPU that two jobs hold": (
        lambda s: s["jobs"][1].update(holds=holds(("a", 0))),
        "field holds: 'a:0' is held by jobs 1, 2, which together need more than one GPU",
    ),
    "more CPUs than the node has": (
        lambda s: s["jobs"][0].update(holds=holds(("a", 0), cpus=9)),
        "field holds: contradicts itself: 'job 1' cannot take 1000 thousandths of GPU 0, cpus 9, memory_gb 0, "
        "storage_mbps 0, network_gbps 0 on node 'a': free are cpus 8",
    ),
    "a holder on a node that is down": (
        lambda s: s["nodes"][0].update(up=False),
        "field holds of job 1: 'a' is a node that is not up",
    ),
    "an order that leaves somebody out": (lambda s: s.update(order=[1]), "field order: [1] must name every job once"),
    "an order of other ids": (lambda s: s.update(order=["1", "2"]), "field order: ['1', '2'] must name every job once"),
    "fewer GPUs than the job needs": (
        lambda s: s["jobs"][0].update(gpus=2),
        "field holds of job 1: 'a:0' is not as many GPUs as the job needs, 2",
    ),
    "a GPU twice": (
        lambda s: s["jobs"][0].update(gpus=2, holds=holds(("a", 0), ("a", 0))),
        "field holds of job 1: 'a:0 a:0' names a GPU twice",
    ),
    "slices that are more than a GPU": (
        lambda s: [one.update(gpus=0.6, holds=holds(("a", 0))) for one in s["jobs"]],
        "field holds: 'a:0' is held by jobs 1, 2, which together need more than one GPU",
    ),
    "more work done than there is": (
        lambda s: s["jobs"][1].update(done_iterations=11),
        "field done_iterations of job 2: 11.0 is more than all its iterations, 10",
    ),
    "an arrival to come": (
        lambda s: s["jobs"][1].update(arrival_s=101),
        "field arrival_s of job 2: 101.0 must not be after now_s, 100",
    ),
    "GPUs held from tomorrow on": (
        lambda s: s["jobs"][0].update(held_since_s=1e5),
        "field held_since_s of job 1: 100000.0 must not be after now_s, 100",
    ),
    "a huge quota": (lambda s: s.update(quotas={"default": 1e300}), "field quotas: 1e+300 is beyond 1e+07"),
    "a huge node": (lambda s: s["nodes"][0].update(gpus=10**12), "1000000000000 GPUs are more than gpuyard"),
    "a huge priority": (
        lambda s: s["jobs"][1].update(priority=2**62),
        "row 2, field priority: 4.611686018427388e+18 must be a whole number from -2147483648 to 2147483647",
    ),
    "a GPU type that nobody knows": (
        lambda s: s.update(recorded_on="nonsense"),
        "field recorded_on: 'nonsense' is neither a GPU type that gpuyard knows nor one of the cluster",
    ),
    "a lone surrogate": (
        lambda s: s["nodes"][0].update(name="\ud800"),
        "field nodes.0.name: '\\ud800' input should be",
    ),
    "a lone surrogate as a tenant": (lambda s: s.update(quotas={"\ud800": 1}), "'\\ud800' is not text"),
    "a text for a count": (
        lambda s: s["nodes"][0].update(gpus="2"),
        "field nodes.0.gpus: '2' input should be a valid integer. It is text: write 2 without quotes",
    ),
    "a truth for a number": (lambda s: s["jobs"][1].update(gpus=True), "field jobs.1.gpus: True input should be"),
    "a number for a text": (lambda s: s["nodes"][0].update(name=3), "field nodes.0.name: 3 input should be"),
    "a list for an object": (lambda s: s["jobs"].append([]), "field jobs.2: [] input should be"),
    "an object for a list": (lambda s: s.update(nodes={}), "field nodes: {} input should be a valid list"),
    "nothing for an object": (lambda s: s["nodes"].append(None), "field nodes.2: input should be"),
    "a text for what is held": (lambda s: s["jobs"][0].update(holds="a:0"), "field jobs.0.holds: 'a:0' input should"),
    "a list for an id": (lambda s: s["jobs"][0].update(job_id=[1]), "field jobs.0.job_id"),
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
    [
        (b"[" * 100_000, "it is nested too deeply"),
        (b'{"gpuyard": "snapshot/1", "gpuyard": "snapshot/1"}', "'gpuyard' stands twice in one object"),
        (b"{", "is not JSON"),
        (b"[1]", "is not a snapshot of gpuyard"),
        (b"\xff\xfe", "cannot be read"),
    ],
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


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: c["sharing"]["tasks"].append(c["sharing"]["tasks"][0]), "sharing.tasks: 'lab/vgg' stands twice"),
        (lambda c: c["sharing"]["tasks"][0].update(job_id="x"), "field sharing.tasks: 'x' is not one of the jobs"),
        (lambda c: c["sharing"]["tasks"][0].update(compute=1.1), "field sharing.tasks.0.compute: 1.1 "),
        (lambda c: c["sharing"]["observations"][0].update(measured=[5]), "field sharing.observations.0: "),
        (lambda c: c["nodes"][0].update(taken={"cpus": 12.5}), "field taken, cpus of node n1: 12.5 "),
        (lambda c: c["nodes"][0].update(taken={"gpus": 1.0}), "field taken: 'gpus' is not one of cpus"),
        (lambda c: c["nodes"][0].update(taken={"cpus": 7.0}), "contradicts itself: "),
    ],
)  # fmt: skip
def test_what_is_wrong_about_sharing_is_one_line_too(change: Callable[[Any], None], says: str, tmp_path: Path) -> None:
    content = json.loads((ROOT / "examples" / "shared-snapshot.json").read_text(encoding="utf-8"))
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    Snapshot.load(path)
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    told = refusal(path)
    assert says in told
    assert told.startswith(str(path))


SHARED: dict[str, Any] = json.loads((ROOT / "examples" / "shared-snapshot.json").read_text())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s["sharing"].update(policy="nope"), "'nope' is not a multiplex policy"),
        (lambda s: s["sharing"]["observations"][0].update(slowdown=-5), "slowdown must be a sum of slowdowns"),
        (lambda s: s["sharing"]["observations"][0].update(slowdown=1e308), "slowdown must be a sum of slowdowns"),
        (lambda s: s["sharing"]["observations"][0].update(measured=[True]), "measured.0: True input should be"),
        (lambda s: s["sharing"]["observations"][0]["mix"][0].update(compute="0.5"), "mix.0.compute"),
        (lambda s: s.update(gpuyard="snapshot/1"), "field sharing: is not a field of snapshot/1"),
        (lambda s: (s.update(gpuyard="snapshot/1"), s.pop("sharing"), s["nodes"][0].update(taken={})),
         "field nodes.0.taken: is not a field of snapshot/1"),
    ],
)  # fmt: skip
def test_what_tasks_share_makes_sense_and_is_of_the_version(tmp_path: Path, change: Change, said: str) -> None:
    content = deepcopy(SHARED)
    change(content)
    file = tmp_path / "snapshot.json"
    file.write_text(json.dumps(content))
    with pytest.raises(InputError) as refused:
        read_facts(file)
    assert said in str(refused.value)
    assert str(file) in str(refused.value)


def test_a_policy_of_somebody_s_own_file_needs_not_be_here(tmp_path: Path) -> None:
    content = deepcopy(SHARED)
    content["sharing"]["policy"] = "elsewhere/own.py:Own"
    (tmp_path / "snapshot.json").write_text(json.dumps(content))
    assert read_facts(tmp_path / "snapshot.json").sharing.policy == "elsewhere/own.py:Own"
