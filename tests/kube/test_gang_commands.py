"""Gangs from the command line, and in the process of an extender: before a real API server stand-in, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kube.api_server import ApiStandIn, api_server
from tests.kube.builders import pod
from tests.kube.gang_yard import FOLDER, GangYard
from tests.kube.waiting import until
from typer.testing import CliRunner

from gpuyard.cli.kube import app
from gpuyard.core.errors import InputError
from gpuyard.core.grants import Grant, Part
from gpuyard.kube import names
from gpuyard.kube.amounts import BesideGpus
from gpuyard.kube.extender.running import ExtenderSettings, running_extender
from gpuyard.kube.install.manifests import manifests
from gpuyard.kube.install.pods import EXTENDER
from gpuyard.kube.install.values import Values
from gpuyard.kube.jobs.amounts import without_resizes
from gpuyard.kube.jobs.controller import JobSettings
from gpuyard.kube.judging import PodJudge, sharing_rule
from gpuyard.kube.resources.definitions import definitions
from gpuyard.policies.multiplex.interference import InterferenceModel
from gpuyard.policies.resolve import resolve
from gpuyard.profiles import load_zoo


@pytest.fixture
def server() -> Iterator[ApiStandIn]:
    with api_server() as found:
        for each in definitions():
            found.put(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{each['metadata']['name']}", each)
        yield found


@pytest.fixture
def kubeconfig(server: ApiStandIn, tmp_path: Path) -> Path:
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    content = {"clusters": [cluster], "users": [{"name": "u", "user": {}}], "contexts": [context]}
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump({**content, "current-context": "c"}))
    return file


def run(kubeconfig: Path, *words: str) -> str:
    done = CliRunner().invoke(app, [words[0], "--kubeconfig", str(kubeconfig), *words[1:]])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_a_workload_becomes_jobs_that_are_listed_explained_and_cancelled(
    server: ApiStandIn, kubeconfig: Path, tmp_path: Path
) -> None:
    workload = tmp_path / "jobs.yaml"
    one = {"job_id": "A_1", "arrival_s": 0, "gpus": 2, "model": "resnet50", "iterations": 9, "command": "python t.py"}
    other = {"job_id": 7, "arrival_s": 5, "gpus": 1, "model": "alexnet", "duration_s": 60, "command": "true"}
    workload.write_text(yaml.safe_dump({"gpuyard": "workload/1", "jobs": [one, other]}))
    run(kubeconfig, "submit", "-n", "lab", "--image", "i", "--checkpoints", "claim", str(workload))
    made = server.objects[f"{FOLDER}/trainingjobs/a-1"]["spec"]
    assert (made["gpus"], made["iterations"], made["checkpoints"]["volume"]) == (
        2, 9.0, {"persistentVolumeClaim": {"claimName": "claim"}}
    )  # fmt: skip
    assert made["template"]["spec"]["containers"] == [{"name": "train", "image": "i", "command": ["python", "t.py"]}]
    rows = json.loads(run(kubeconfig, "jobs", "--format", "json"))
    assert [(row["job"], row["phase"], row["gpus"]) for row in rows] == [
        ("lab/a-1", "Waiting", 2),
        ("lab/job-7", "Waiting", 1),
    ]
    assert "nobody has decided about it" in run(kubeconfig, "why", "lab/a-1")
    run(kubeconfig, "cancel", "-n", "lab", "a-1")
    assert server.objects[f"{FOLDER}/trainingjobs/a-1"]["spec"]["cancelled"] is True


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"gpus": 0.5}, "gpus of job b"),
        ({"command": ""}, "command of job b"),
        ({"job_id": "x" * 60}, "metadata.name"),
        ({"command": "a 'b"}, "command of job b"),
    ],
)
def test_a_workload_of_which_one_job_cannot_run_is_refused_as_a_whole(
    server: ApiStandIn, kubeconfig: Path, tmp_path: Path, change: dict[str, Any], field: str
) -> None:
    good = {"job_id": "a", "arrival_s": 0, "gpus": 1, "model": "resnet50", "iterations": 9, "command": "true"}
    workload = tmp_path / "jobs.yaml"
    jobs = [good, {**good, "job_id": "b", **change}]
    workload.write_text(yaml.safe_dump({"gpuyard": "workload/1", "jobs": jobs}))
    with pytest.raises(InputError) as refused:
        run(kubeconfig, "submit", "--image", "i", str(workload))
    assert field in str(refused.value)
    assert not [path for path in server.objects if "/trainingjobs/" in path]


def test_what_is_not_there_or_not_said_is_refused(kubeconfig: Path) -> None:
    for words in (
        ("cancel", "none"),
        ("submit", "--image", "i"),
        ("submit", "--image", "i", "--", "true"),
        ("submit", "--name", "n", "--", "true"),
    ):
        with pytest.raises(InputError):
            run(kubeconfig, *words)


def test_an_extender_that_leads_starts_gangs_and_says_why_others_wait(server: ApiStandIn) -> None:
    yard = GangYard()  # for its builders alone
    yard.add_node("n1", 2)
    server.put("/api/v1/nodes/n1", deepcopy(yard.server.objects["/api/v1/nodes/n1"]))
    for name, gpus in (("first", 2), ("second", 1)):
        yard.submit(name, gpus)
        server.answer("POST", f"{FOLDER}/trainingjobs", yard.server.objects[f"{FOLDER}/trainingjobs/{name}"])
    settings = JobSettings(resolve("fifo+tune"), load_zoo(), round_s=0.2)
    judge = PodJudge(sharing_rule("interference"), InterferenceModel())

    def status(name: str) -> dict[str, Any]:
        return dict(server.objects[f"{FOLDER}/trainingjobs/{name}"].get("status") or {})

    def node_of(pod: str) -> str | None:
        found = server.objects.get(f"/api/v1/namespaces/lab/pods/{pod}") or {"spec": {}}
        return str(found["spec"].get("nodeName"))

    with running_extender(server.api, judge, ExtenderSettings(port=0, jobs=settings), print):
        until(lambda: status("first").get("phase") == "Starting" and status("second").get("reason") == "LacksGpus")
        until(lambda: node_of("first-1-0") == "n1")
        first = deepcopy(server.objects["/api/v1/namespaces/lab/pods/first-1-0"])
        first["status"] = {"phase": "Running", "podIP": "10.0.0.9"}
        server.put("/api/v1/namespaces/lab/pods/first-1-0", first)
        until(lambda: node_of("first-1-1") == "n1")


def test_only_an_installation_with_gangs_has_their_rights() -> None:
    def rules(values: Values) -> list[Any]:
        return [
            rule
            for each in manifests(values, 31)
            if each["kind"] == "ClusterRole" and each["metadata"]["name"] == EXTENDER
            for rule in each["rules"]
        ]

    extra = [rule for rule in rules(Values(jobs="las+tune")) if rule not in rules(Values())]
    assert {(name, verb) for rule in extra for name in rule["resources"] for verb in rule["verbs"]} == {
        ("pods", "create"), ("pods", "delete"), ("trainingjobs", "list"), ("trainingjobs", "watch"),
        ("trainingjobs/status", "patch"),
        *(("trainingtasks", verb) for verb in ("get", "create", "patch")),
    }  # fmt: skip
    (extender,) = [
        each
        for each in manifests(Values(jobs="las+tune", jobsStarvation="6h", jobsQuotas="a=2"), 31)
        if each["kind"] == "Deployment" and each["metadata"]["name"] == EXTENDER
    ]
    command = extender["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[command.index("--jobs") :][:8] == [
        "--jobs", "las+tune", "--round", "60", "--starvation", "6h", "--quota", "a=2"
    ]  # fmt: skip


def grant(job: str, gpu: int, cpus: float, node: str = "n1") -> Grant:
    return Grant(job, (Part(node, gpu, amounts={"cpus": cpus, "memory_gb": 10.0}),))


@pytest.mark.parametrize(
    ("planned", "kept"),
    [
        ([("a", 0, 4.0)], [8.0]),  # it was to have less, and nobody needs the rest
        ([("a", 0, 10.0)], [8.0]),  # more takes other pods, too
        ([("a", 0, 4.0), ("new", 1, 4.0)], [8.0, 4.0]),  # there is room for both
        ([("a", 0, 4.0), ("new", 1, 8.0)], [4.0, 8.0]),  # there is not
        ([("a", 3, 4.0)], [4.0]),  # it moves
    ],
)
def test_who_stays_keeps_its_amounts_unless_somebody_who_comes_lacks_them(
    planned: list[tuple[str, int, float]], kept: list[float]
) -> None:
    plan = tuple(grant(*each) for each in planned)
    found = without_resizes(plan, {"a": grant("a", 0, 8.0)}, {"n1": BesideGpus(12.0, 100.0)})
    assert [each.total("cpus") for each in found] == kept


AMOUNT = st.integers(1, 8).map(float)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(AMOUNT, AMOUNT, st.booleans()), min_size=1, max_size=6), st.integers(0, 6))
def test_nobody_gets_other_amounts_whose_own_are_not_needed(gangs: list[tuple[float, float, bool]], spare: int) -> None:
    """Each is to have an amount, has one, and stays or comes."""
    plan = tuple(grant(f"g{number}", number, planned) for number, (planned, _, _) in enumerate(gangs))
    had = {f"g{number}": grant(f"g{number}", number, own) for number, (_, own, stays) in enumerate(gangs) if stays}
    room = sum(planned for planned, _, _ in gangs) + spare
    found = without_resizes(plan, had, {"n1": BesideGpus(room, 1000.0)})
    taken = sum(each.total("cpus") for each in found)
    assert taken <= room
    for each in found:
        if each.holder in had:
            assert each in (had[each.holder], plan[int(str(each.holder)[1:])])
            assert each == had[each.holder] or taken + had[each.holder].total("cpus") - each.total("cpus") > room


def test_who_is_first_keeps_what_it_has_where_another_one_gives_enough() -> None:
    had = {"a": grant("a", 0, 4.0), "b": grant("b", 1, 8.0)}
    plan = (grant("a", 0, 3.0), grant("b", 1, 3.0), grant("new", 2, 5.0))
    found = without_resizes(plan, had, {"n1": BesideGpus(12.0, 100.0)})
    assert [each.total("cpus") for each in found] == [4.0, 3.0, 5.0]


@pytest.mark.parametrize("wrong", ["0s", "soon", "-1h"])
def test_a_time_until_nobody_waits_longer_must_be_one(wrong: str) -> None:
    found = CliRunner().invoke(app, ["extender", "--jobs", "srtf+tune", "--starvation", wrong])
    assert isinstance(found.exception, InputError) or found.exit_code == 2
    assert "starvation" in f"{found.exception}{found.output}"


COMMAND = ("--name", "n", "--image", "i")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (("--model", "nosuch"), "model"),
        (("--priority", "99999999999999999999"), "priority"),
        (("--iterations", "nan"), "iterations"),
        (("--iterations", "inf"), "iterations"),
        (("--iterations", "0"), "iterations"),
        (("--gpus", "1000000000"), "gpus"),
        (("--tenant", "a\nb"), "tenant"),
        (("-n", "../x"), "namespace"),
        (("--checkpoints", "a b/c"), "checkpoints"),
        (("--checkpoints", "/a/../.."), "checkpoints"),
        (("--checkpoints", "/"), "checkpoints"),
        (("--image", "a\nb"), "image"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_is_made(
    server: ApiStandIn, kubeconfig: Path, options: tuple[str, ...], field: str
) -> None:
    with pytest.raises(InputError) as refused:
        run(kubeconfig, "submit", *COMMAND, *options, "--", "true")
    assert refused.value.field == field
    assert not [path for path in server.objects if "/trainingjobs/" in path]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"spec: abc", "spec.containers"),
        (b"spec: [1]", "spec.containers"),
        (b"spec:", "spec.containers"),
        (b"spec: {containers: [{name: a, image: x}, b]}", "spec.containers"),
        (b"spec: {containers: [{name: a}]}", "spec.containers[0].image"),
        (b"spec: {containers: [{name: a, image: x}, {name: b}]}", "spec.containers[1].image"),
        (b"spec: {containers: [{name: a, image: 2020-01-01}]}", "spec.containers[0].image"),
        (b"spec: {containers: [{name: a, image: !!binary aGVsbG8=}]}", "spec.containers[0].image"),
        (b"spec: {containers: [{name: a, image: x, foo: .nan}]}", "spec.containers[0].foo"),
        (b"[" * 3000, "nested too deeply"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_template_that_makes_no_pods_is_refused_before_anything_is_made(
    server: ApiStandIn, kubeconfig: Path, tmp_path: Path, text: bytes, said: str
) -> None:
    file = tmp_path / "template.yaml"
    file.write_bytes(text)
    with pytest.raises(InputError) as refused:
        run(kubeconfig, "submit", "--name", "n", "--template", str(file), "--", "true")
    assert said in str(refused.value)
    assert str(file) in str(refused.value)
    assert not [path for path in server.objects if "/trainingjobs/" in path]


def test_where_one_name_is_taken_nothing_is_submitted(server: ApiStandIn, kubeconfig: Path, tmp_path: Path) -> None:
    run(kubeconfig, "submit", "--name", "b", "--image", "i", "--", "true")
    one = {"job_id": "a", "arrival_s": 0, "gpus": 1, "model": "resnet50", "iterations": 9, "command": "true"}
    workload = tmp_path / "jobs.yaml"
    workload.write_text(yaml.safe_dump({"gpuyard": "workload/1", "jobs": [one, {**one, "job_id": "b"}]}))
    with pytest.raises(InputError, match="'default/b' is a TrainingJob of this cluster already"):
        run(kubeconfig, "submit", "--image", "i", str(workload))
    assert [path.rpartition("/")[2] for path in server.objects if "/trainingjobs/" in path] == ["b"]


def test_why_names_a_pod_whose_request_nobody_understands(server: ApiStandIn, kubeconfig: Path) -> None:
    wrong = pod("odd", memory=2)
    wrong["spec"]["containers"][0]["resources"] = {"limits": {names.MEMORY: "lots"}}
    server.add_pod(wrong)
    space = wrong["metadata"]["namespace"]
    with pytest.raises(InputError, match=f"pod {space}/odd, field {names.MEMORY}: 'lots' is not a whole number"):
        run(kubeconfig, "why", f"{space}/odd")
