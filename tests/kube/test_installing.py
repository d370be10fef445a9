"""What is installed, and that installing, keeping up to date and removing does it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.kube.api_server import ApiStandIn, api_server

from gpuyard.core.errors import GpuyardError, InputError
from gpuyard.kube import names
from gpuyard.kube.install.chart import chart_files
from gpuyard.kube.install.installing import apply_all, is_there, minor_version, path_of, remove_all, wait_until_ready
from gpuyard.kube.install.manifests import manifests
from gpuyard.kube.install.value_rules import RULES
from gpuyard.kube.install.values import Values, read_values

FILES = dict.fromkeys(("ca.crt", "tls.crt", "tls.key", "client.crt", "client.key"), b"secret of the test")
Manifest = dict[str, Any]


def made(kind: str, name: str, minor: int = 31, values: Values | None = None) -> Manifest:
    found = manifests(values or Values(), minor, FILES)
    (one,) = [each for each in found if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return one


def test_the_extender_decides_by_the_policy_of_the_values() -> None:
    made_of = made("Deployment", "gpuyard-extender", values=Values(multiplex="best-fit"))
    (container,) = made_of["spec"]["template"]["spec"]["containers"]
    command = [*container["command"], *container.get("args", [])]
    assert command[command.index("--multiplex") + 1] == "best-fit"


def test_the_scheduler_asks_about_our_resources_and_those_of_iadeep_over_tls() -> None:
    config = json.loads(made("ConfigMap", "gpuyard-scheduler")["data"]["config.yaml"])
    (extender,) = config["extenders"]
    assert extender["urlPrefix"] == "https://gpuyard-extender.gpuyard-system.svc:12345"
    assert [each["name"] for each in extender["managedResources"]] == list(names.RESOURCES_OF_PODS)
    assert extender["enableHTTPS"]
    assert [each["schedulerName"] for each in config["profiles"]] == ["gpuyard", "iadeep-scheduler"]
    assert config["leaderElection"]["resourceName"] == "gpuyard-scheduler"  # not that of the cluster's own scheduler


def test_each_version_of_kubernetes_gets_what_it_knows() -> None:
    def versions(minor: int) -> tuple[str, str]:
        config = json.loads(made("ConfigMap", "gpuyard-scheduler", minor)["data"]["config.yaml"])
        return made("PodDisruptionBudget", "gpuyard-extender", minor)["apiVersion"], config["apiVersion"]

    assert versions(20) == ("policy/v1beta1", "kubescheduler.config.k8s.io/v1beta1")
    assert [versions(minor)[1].rpartition("/")[2] for minor in (21, 22, 24, 25, 40)] == [
        "v1beta1",
        "v1beta2",
        "v1beta2",
        "v1",
        "v1",
    ]
    assert versions(34) == ("policy/v1", "kubescheduler.config.k8s.io/v1")


def test_the_service_has_the_leader_only() -> None:
    assert made("Service", "gpuyard-extender")["spec"]["selector"][names.LEADS] == "true"


def test_names_are_all_different_and_places_known() -> None:
    paths = [path_of(each) for each in manifests(Values(), 31, FILES)]
    assert len(set(paths)) == len(paths)
    assert "/apis/apps/v1/namespaces/gpuyard-system/daemonsets/gpuyard-device-plugin" in paths


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("imge: x", "is not a value of gpuyard. Did you mean 'image'"),
        ("- a", "must be fields"),
        ("a: [", "is not YAML"),
        ("replicas: 1\nreplicas: 3", "'replicas' stands twice"),
        ("env: " + "[" * 3000, "is nested too deeply"),
        ("5: x", "is the name of a field and no text"),
        ("a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
         "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
         "e: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]", "means too much"),
        ("env: &a [*a]", "means too much"),
        ("image: !!binary aGVsbG8=", "image.*is no text"),
        ("emulated: 4xNothing", "field emulated.*Nothing"),
        ("emulated: 0xV100", "field emulated.*asks for no V100"),
        ("multiplex: nope", "field multiplex.*is not a multiplex policy"),
        ("multiplex: pairwise", "field multiplex.*weighs all tasks"),
        ("jobs: nope+nope", "field jobs.*is not an order"),
        ("jobsQuotas: 'a=1,a=2'", "field jobsQuotas.*once for each tenant"),
        ("tasks: /a\nlibraries: /a", "is the folder of"),
        ("tasks: /a/b\nlibraries: /a", "field tasks.*is the folder of libraries, or in it"),
        ("env: [{name: NODE_NAME, value: x}]", "is set by gpuyard itself"),
        ("env: [{name: A, value: x}, {name: A, value: y}]", r"env\[1\].name.*stands twice"),
    ],
)  # fmt: skip
def test_values_that_make_no_sense_are_refused(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(content)
    with pytest.raises(InputError, match=said) as refused:
        read_values(file)
    assert str(file) in str(refused.value)


@cache
def schema_of_chart() -> Any:
    return json.loads(chart_files()["values.schema.json"])


WRONG: list[tuple[str, Any, str]] = [
    *(("speed", value, "speed") for value in (0, -1, True, "fast")),
    *(("jobsRound", value, "jobsRound") for value in (-1, 0)),
    ("jobsQuotas", "a=b", "jobsQuotas"),
    ("multiplex", "", "multiplex"),
    *(("replicas", value, "replicas") for value in (0, True, 10**12, 1.5, "many")),
    *(("schedulerPort", value, "schedulerPort") for value in (-1, 0, 99999)),
    *(("listen", value, "listen") for value in ("777", "x:0", "0.0.0.0:99999", "a\nb:1")),
    *((name, value, name) for name in ("image", "schedulerImage") for value in ("", "x\ny: z", 'a"b')),
    *((name, value, name) for name in ("libraries", "tasks", "sharedMemory")
      for value in ("/", "../../etc", "/a/../..", "/a/", "/./a")),
    ("command", [], "command"), ("command", [1, 2], "command[0]"), ("command", "gpuyard", "command"),
    ("schedulerCommand", [""], "schedulerCommand[0]"),
    ("env", ["a", 5], "env[0]"), ("env", [{"value": "x"}], "env[0]"),
    ("env", [{"name": "A", "value": 5}], "env[0].value"),
    ("volumes", [5], "volumes[0]"), ("volumes", [{}], "volumes[0]"),
    ("volumeMounts", [{"name": "a"}], "volumeMounts[0]"),
    ("metricsFrom", ["x"], "metricsFrom[0]"), ("metricsFrom", [{}], "metricsFrom[0]"),
    ("nodeSelector", {"a": {"b": "c"}}, "nodeSelector.a"), ("nodeSelector", {"a": 1}, "nodeSelector.a"),
    ("nodeSelector", {"a b": "c"}, "nodeSelector"),
    ("imagePullPolicy", "Sometimes", "imagePullPolicy"), ("gpus", "some", "gpus"),
    ("extenderUrl", "not a url", "extenderUrl"), ("extenderUrl", "http://a:1", "extenderUrl"),
    ("hostNetwork", "false", "hostNetwork"), ("runtimeClass", "A b", "runtimeClass"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "field"), WRONG)
def test_each_value_has_a_rule_that_the_schema_of_the_chart_has_too(
    tmp_path: Path, name: str, value: Any, field: str
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps({name: value}))
    with pytest.raises(InputError) as refused:
        read_values(file)
    assert (refused.value.file, refused.value.field) == (file, field)
    assert not jsonschema.Draft7Validator(schema_of_chart()).is_valid({name: value})


@pytest.mark.parametrize("value", [{"listen": "a:1\n"}, {"tasks": "/a\n"}, {"nodeSelector": {"a": "x\n"}}])
def test_a_line_break_at_the_end_is_none_of_the_end(tmp_path: Path, value: dict[str, Any]) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(value))
    with pytest.raises(InputError, match=f"field {next(iter(value))}"):
        read_values(file)


@pytest.mark.parametrize("number", [".nan", ".inf", "-.inf"])
@pytest.mark.parametrize("name", ["speed", "jobsRound"])
def test_numbers_are_finite(tmp_path: Path, name: str, number: str) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(f"{name}: {number}")
    with pytest.raises(InputError, match=f"field {name}.*finite"):
        read_values(file)


@pytest.mark.parametrize("namespace", ["", "Not A Namespace/..", "../x", "a" * 64, "-a"])
def test_a_namespace_has_a_name_that_kubernetes_lets_it_have(tmp_path: Path, namespace: str) -> None:
    with pytest.raises(InputError, match="field namespace"):
        read_values(None, namespace=namespace)


def test_the_usual_values_keep_all_rules() -> None:
    assert read_values(None) == Values()
    assert set(RULES) == set(vars(Values()))
    for name, rule in RULES.items():
        rule.check(name, getattr(Values(), name), None)


def test_what_is_given_goes_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("image: one\nspeed: 2\n")
    values = read_values(file, image="two", namespace=None)
    assert (values.image, values.speed, values.namespace) == ("two", 2, "gpuyard-system")


@pytest.fixture
def server() -> Iterator[ApiStandIn]:
    with api_server() as stand_in:
        stand_in.objects["/version"] = {"metadata": {}, "minor": "20+"}
        yield stand_in


def test_everything_is_installed_once_and_again_and_removed(server: ApiStandIn) -> None:
    wanted = manifests(Values(), minor_version(server.api), FILES)
    for _ in range(2):
        assert len(apply_all(server.api, wanted)) == len(wanted)
    assert all(is_there(server.api, each) for each in wanted)
    assert len(remove_all(server.api, wanted)) == len(wanted)
    assert remove_all(server.api, wanted) == []
    assert not any(is_there(server.api, each) for each in wanted)


def test_waiting_says_what_is_missing_and_ends_when_it_is_there(server: ApiStandIn) -> None:
    wanted = manifests(Values(), 31)
    apply_all(server.api, wanted)
    with pytest.raises(GpuyardError, match="gpuyard-extender is not ready after 0 s: none of its pods is ready"):
        wait_until_ready(server.api, wanted, 0.0, print)
    for path in [path_of(each) for each in wanted if each["kind"] in ("Deployment", "DaemonSet")]:
        ready = {"readyReplicas": 1, "desiredNumberScheduled": 2, "numberReady": 2}
        server.put(path, {**server.objects[path], "status": ready})
    wait_until_ready(server.api, wanted, 0.0, print)
