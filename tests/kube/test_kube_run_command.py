"""`gpuyard run --on kubernetes` as a command: before a real API server stand-in and the extender that decides."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from tests.kube.api_server import ApiStandIn, api_server
from tests.kube.builders import gpus
from typer.testing import CliRunner

from gpuyard.cli import app
from gpuyard.core.errors import InputError
from gpuyard.kube import names
from gpuyard.kube.extender.running import ExtenderSettings, running_extender
from gpuyard.kube.jobs.controller import JobSettings
from gpuyard.kube.judging import PodJudge, sharing_rule
from gpuyard.kube.objects import write_gpus
from gpuyard.kube.resources.definitions import definitions
from gpuyard.policies.multiplex.interference import InterferenceModel
from gpuyard.policies.resolve import resolve
from gpuyard.profiles import load_zoo
from gpuyard.results import load_run

PODS = "/api/v1/namespaces/lab/pods/"
FAST_S = 0.1


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiStandIn]:
    monkeypatch.setattr("gpuyard.kube.jobs.kube_run.LOOK_S", FAST_S)
    with api_server() as found:
        found.moment = lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for each in definitions():
            found.put(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{each['metadata']['name']}", each)
        status = {
            "allocatable": {"cpu": "12", "memory": "250G"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        annotations = {names.GPUS_OF_NODE: write_gpus(gpus(16, 16, kind="V100"))}
        found.add_node({"metadata": {"name": "n1", "annotations": annotations}, "spec": {}, "status": status})
        yield found


@pytest.fixture
def words(server: ApiStandIn, tmp_path: Path) -> list[str]:
    """The command, but for what each test adds."""
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    content = {"clusters": [cluster], "users": [{"name": "u", "user": {}}], "contexts": [context]}
    (tmp_path / "config").write_text(yaml.safe_dump({**content, "current-context": "c"}))
    job = {"arrival_s": 0, "model": "resnet50", "iterations": 9, "command": "python t.py"}
    jobs = [{"job_id": "wide", "gpus": 2, **job}, {"job_id": "small", "gpus": 1, **job}]
    (tmp_path / "jobs.yaml").write_text(yaml.safe_dump({"gpuyard": "workload/1", "jobs": jobs}))
    where = ["--kubeconfig", str(tmp_path / "config"), "--namespace", "lab", "--out", str(tmp_path / "runs")]
    return ["run", str(tmp_path / "jobs.yaml"), "--on", "kubernetes", *where, "--image", "i"]


def invoke(*words: str) -> Result:
    done = CliRunner().invoke(app, list(words))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@contextmanager
def deciding(server: ApiStandIn) -> Iterator[None]:
    judge = PodJudge(sharing_rule("interference"), InterferenceModel())
    settings = JobSettings(resolve("fifo+tune"), load_zoo(), round_s=0.2, beat_s=0.05, leave_s=1.0)
    with running_extender(server.api, judge, ExtenderSettings(port=0, jobs=settings), lambda _text: None):
        yield


@contextmanager
def kubelet(server: ApiStandIn, *, ends: bool) -> Iterator[threading.Event]:
    """Runs the pods that are bound: they end well at once, or only when they are deleted; says when one runs."""
    over, runs = threading.Event(), threading.Event()
    server.graceful = True

    def work() -> None:
        while not over.wait(0.05):
            with server.changed:
                bound = [deepcopy(each) for path, each in server.objects.items() if path.startswith(PODS)]
            for pod in (each for each in bound if each["spec"].get("nodeName")):
                phase, path = pod["status"].get("phase"), PODS + pod["metadata"]["name"]
                if pod["metadata"].get("deletionTimestamp"):
                    server.remove(path)
                elif phase == "Pending":
                    server.put(path, {**pod, "status": {"phase": "Running", "podIP": "10.0.0.9"}})
                    runs.set()
                elif phase == "Running" and ends:
                    terminated = [{"state": {"terminated": {"exitCode": 0}}}]
                    server.put(path, {**pod, "status": {"phase": "Succeeded", "containerStatuses": terminated}})

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield runs
    finally:
        over.set()
        thread.join()


def test_a_workload_runs_on_kubernetes_and_is_a_run_that_report_compare_and_why_read(
    server: ApiStandIn, words: list[str], tmp_path: Path
) -> None:
    with deciding(server), kubelet(server, ends=True):
        done = invoke(*words, "--format", "json")
    assert done.exit_code == 0, done.output
    folder = tmp_path / "runs" / "kubernetes-jobs"
    found = load_run(folder)
    assert (found.world, found.info["complete"], found.info["policy"]) == ("kubernetes", True, "fifo+tune")
    assert found.jobs["finish_s"].null_count() == 0
    label = found.info["kubernetes"]["run"]
    made = [each for path, each in server.objects.items() if "/trainingjobs/" in path]
    assert [each["metadata"]["labels"]["gpuyard.io/run"] for each in made] == [label, label]
    assert [each.name for each in (tmp_path / "runs").iterdir()] == ["kubernetes-jobs"]  # its state is gone
    assert "wide" in invoke("why", str(folder), "wide").output
    assert invoke("report", str(folder), "--out", str(tmp_path / "report")).exit_code == 0
    assert json.loads(invoke("compare", str(folder), str(folder), "--format", "json").output)
    with pytest.raises(InputError, match="are there already"):
        invoke(*words)


def test_ctrl_c_cancels_and_writes_a_run_that_is_incomplete(
    server: ApiStandIn, words: list[str], tmp_path: Path
) -> None:
    with deciding(server), kubelet(server, ends=False) as runs:
        waiter = threading.Thread(target=lambda: (runs.wait(60), os.kill(os.getpid(), signal.SIGINT)), daemon=True)
        waiter.start()
        done = invoke(*words, "--state", str(tmp_path / "state"))
        waiter.join()
    assert done.exit_code == 1
    assert f"the same command with --state {tmp_path / 'state'}" in done.output
    found = load_run(tmp_path / "runs" / "kubernetes-jobs")
    assert not found.info["complete"]
    assert {"job wide was cancelled", "job small was cancelled"} <= set(found.info["notes"])


def test_a_run_that_was_killed_is_followed_again_by_the_same_command(
    server: ApiStandIn, words: list[str], tmp_path: Path
) -> None:
    state = ["--state", str(tmp_path / "state"), "--quiet"]
    killed: list[Any] = []

    def fails(method: str, path: str) -> int | None:
        if method == "GET" and killed:
            return 403  # the follower dies of it, its jobs do not know
        if method == "POST" and path.endswith("/trainingjobs"):
            killed.append(path)
        return None

    server.fails = fails
    with pytest.raises(Exception, match="it failed"):
        invoke(*words, *state)
    server.fails = lambda _method, _path: None
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())
    with deciding(server), kubelet(server, ends=True):
        assert invoke(*words, *state).exit_code == 0
    assert sum(method == "POST" and path.endswith("/trainingjobs") for method, path, _ in server.requests) == 2
    assert load_run(tmp_path / "runs" / "kubernetes-jobs").info["complete"]


@pytest.mark.parametrize(
    ("more", "field"),
    [
        (["--policy", "las+tune"], "policy"),
        (["--cluster", "1x1"], "cluster"),
        (["--multiplex", "interference"], "multiplex"),
        (["--round", "60"], "round"),
        (["--speed", "2"], "speed"),
        (["--world", "gpu"], "world"),
        (["--tries", "2"], "tries"),
        (["--leave", "5"], "leave"),
        (["--control-group", "x"], "control-group"),
    ],
)
def test_what_the_cluster_decides_is_refused(server: ApiStandIn, words: list[str], more: list[str], field: str) -> None:
    with pytest.raises(InputError, match="cannot be chosen with --on kubernetes") as refused:
        invoke(*words, *more)
    assert field in str(refused.value)
    assert not server.requests


def test_what_is_for_kubernetes_alone_is_refused_elsewhere_and_no_workload_there(words: list[str]) -> None:
    for more in (["--image", "i"], ["--checkpoints", "c"], ["--namespace", "lab"]):
        with pytest.raises(InputError, match="is for --on kubernetes"):
            invoke("run", *more)
    with pytest.raises(InputError, match="is missing"):
        invoke("run", *words[2:])
