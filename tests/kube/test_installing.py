"""What is installed, and that installing, keeping up to date and removing does it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kube.api_server import ApiStandIn, api_server

from gpuyard.core.errors import GpuyardError, InputError
from gpuyard.kube import names
from gpuyard.kube.install.installing import apply_all, is_there, minor_version, path_of, remove_all, wait_until_ready
from gpuyard.kube.install.manifests import manifests
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
        ("replicas: many", "must be a int"),
        ("replicas: 0", "must be at least 1"),
        ("- a", "must be fields"),
        ("emulated: 4xNothing", "4xNothing|Nothing"),
        ("gpus: some", "is none of emulated, nvml"),
        ("listen: '777'", "is not HOST:PORT"),
        ("a: [", "is not YAML"),
    ],
)
def test_values_that_make_no_sense_are_refused(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(content)
    with pytest.raises(InputError, match=said):
        read_values(file)


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
