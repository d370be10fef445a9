"""A snapshot of a cluster with gangs: who decides by it decides as the controller of gangs, and it changes nothing."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kube.api_server import api_server
from tests.kube.builders import pod
from tests.kube.gang_yard import GangYard
from typer.testing import CliRunner

from gpuyard.cli import app
from gpuyard.core.errors import InputError
from gpuyard.kube.learnt import CONFIG_MAP, Learnt, write_learnt
from gpuyard.kube.resources.shared_gpu import MeasuredMix, MemberUsage
from gpuyard.policies.named_plan import named_plan
from gpuyard.policies.snapshot_files import read_facts

POLICY = "las+proportional"
A, B = MemberUsage("a", 0.5, 0.3), MemberUsage("b", 0.8, 0.2)


def run(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


@pytest.fixture
def busy() -> GangYard:
    """One gang that runs, beside one that shares a GPU and one that trains without gpuyard's GPUs."""
    yard = GangYard(policy="las+proportional")
    yard.add_node("n1", 4)
    yard.add_node("n2", 2, kind="T4")
    yard.server.add_pod(pod("shares", memory=3, node="n1", devices="2"))
    stranger = pod("stranger", node="n1", phase="Running")
    stranger["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2", "memory": "20G"}
    yard.server.add_pod(stranger)
    yard.submit("early", 2, iterations=100_000)
    yard.run(until=120.0)
    assert yard.job("early")["phase"] == "Running"
    return yard


def taken(yard: GangYard, folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> Path:
    """What `gpuyard kube snapshot` writes of this cluster, over HTTP, at this moment."""
    now_s, config, out = yard.clock.now(), folder / "kubeconfig", folder / "now.json"
    with api_server() as server:
        server.objects.update(deepcopy(yard.server.objects))
        before = deepcopy(server.objects)
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        content = {"clusters": [cluster], "users": [{"name": "u", "user": {}}], "contexts": [context]}
        config.write_text(yaml.safe_dump({**content, "current-context": "c"}))
        with monkeypatch.context() as patched:
            patched.setattr("time.time", lambda: now_s)
            run(
                "kube",
                "snapshot",
                "--kubeconfig",
                str(folder / "kubeconfig"),
                "--out",
                str(folder / "now.json"),
                *words,
            )
        assert server.objects == before, "it changes nothing"
    return out


@pytest.mark.parametrize(
    ("asked", "quota"),
    [
        ([], ""),
        ([{"gpus": 1}, {"gpus": 2}], ""),
        ([{"gpus": 3, "priority": 1}], ""),
        ([{"gpus": 1, "tenant": "a"}, {"gpus": 1, "tenant": "a"}, {"gpus": 1}], "a=1"),
        ([{"gpus": 1, "cancelled": True}, {"gpus": 1, "gpuTypes": ["T4"]}, {"gpus": 9}], ""),
    ],
    ids=["nobody waits", "one fits", "one leaves", "a quota", "some cannot"],
)
def test_decide_says_of_a_snapshot_what_the_controller_of_gangs_does(
    busy: GangYard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[dict[str, Any]], quota: str
) -> None:
    for number, each in enumerate(asked):
        busy.submit(f"w{number}", each.pop("gpus"), **each)
    file = taken(busy, tmp_path, monkeypatch, "--gangs", "--quota", quota)
    told = json.loads(run("decide", str(file), "--policy", POLICY, "--format", "json"))
    busy.quotas = {"a": 1.0} if quota else {}
    busy.start_controller()
    count = len(busy.seen)
    busy.run(until=busy.clock.now() + 1.0)
    snapshot, decision = busy.seen[count]
    assert told == named_plan(snapshot, decision)
    assert not asked or any(told.values())
    names = {name for name, fact in read_facts(file).jobs.items() if str(name).startswith("lab/")}
    assert names == {"lab/early", *(f"lab/w{n}" for n, each in enumerate(asked) if not each.get("cancelled"))}


def test_among_pods_a_gang_is_one_job_and_what_was_learnt_of_mixes_is_there(
    busy: GangYard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy.submit("waits", 6)
    learnt = Learnt().hear("g", [MeasuredMix((A, B), (0,), 1.2, 0.0, "", "1970-01-01T00:00:00Z")], 0.0)
    path = f"/api/v1/namespaces/yard/configmaps/{CONFIG_MAP}"
    busy.server.put(path, {"metadata": {}, "data": write_learnt(learnt)})
    found = read_facts(taken(busy, tmp_path, monkeypatch, "--namespace", "yard"))
    assert set(found.jobs) == {"lab/early", "lab/waits", "lab/shares"}
    early = found.jobs["lab/early"]
    assert early.holds is not None
    assert [gpu for _, gpu in early.holds.gpus] == [0, 1]
    assert early.held_since_s is not None
    assert early.held_since_s <= found.now_s
    assert early.done_iterations > 0
    assert found.jobs["lab/waits"].holds is None
    assert found.sharing.known.observations == learnt.observations


def test_a_cluster_without_gangs_has_no_snapshot_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    yard = GangYard()
    yard.add_node("n1", 1)
    with pytest.raises(InputError, match="no TrainingJobs"):
        taken(yard, tmp_path, monkeypatch, "--gangs")
    assert not (tmp_path / "now.json").exists()
    assert set(read_facts(taken(yard, tmp_path, monkeypatch)).nodes) == {"n1"}
