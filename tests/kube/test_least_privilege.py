"""What every container that is installed may do and see, as one table: no more than it does."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.kube.install.manifests import manifests
from gpuyard.kube.install.values import Values

Manifest = dict[str, Any]
FILES = dict.fromkeys(("ca.crt", "tls.crt", "tls.key", "client.crt", "client.key"), b"secret of the test")
ALL = {"gpuyard-extender", "gpuyard-scheduler", "gpuyard-device-plugin", "gpuyard-node"}


class Held(NamedTuple):
    """What a container is held to."""

    root: bool
    token: bool
    """Whether it speaks with the API server."""
    of_node: dict[str, bool]
    """Folders of the node that it sees, and whether it may write there."""
    secret: str
    probes: str
    memory_limit: str


TABLE = {
    "extender": Held(False, True, {}, "gpuyard-extender-tls", "httpGet", ""),
    "scheduler": Held(False, True, {}, "gpuyard-scheduler-tls", "httpGet", ""),
    "device-plugin": Held(
        True,
        True,
        {
            "/var/lib/kubelet/device-plugins": True,
            "/var/lib/kubelet/pod-resources": False,
            "/var/lib/gpuyard/lib": True,
            "/var/lib/gpuyard/tasks": True,
            "/dev/shm/gpuyard": True,
        },
        "",
        "exec",
        "512Mi",
    ),
    "node": Held(True, True, {"/var/lib/gpuyard/tasks": True}, "", "exec", "512Mi"),
}


def pods_of(made: list[Manifest]) -> dict[str, Manifest]:
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in made
        if "template" in each.get("spec", {})
    }


def held(pod: Manifest, container: Manifest) -> Held:
    security = pod["securityContext"]
    assert security.get("runAsNonRoot", False) == bool(security["runAsUser"])
    volumes = {each["name"]: each for each in pod["volumes"]}
    mounts = {each["name"]: each for each in container["volumeMounts"]}
    folders = {
        volumes[name]["hostPath"]["path"]: not mount["readOnly"]
        for name, mount in mounts.items()
        if "hostPath" in volumes[name]
    }
    secrets = [each["secret"]["secretName"] for each in volumes.values() if "secret" in each]
    return Held(
        root=security["runAsUser"] == 0,
        token=pod["automountServiceAccountToken"],
        of_node=folders,
        secret=",".join(secrets),
        probes=next(kind for kind in ("httpGet", "exec") if kind in container["livenessProbe"]),
        memory_limit=container["resources"].get("limits", {}).get("memory", ""),
    )


def test_every_container_is_held_to_what_the_table_says() -> None:
    found = {
        container["name"]: held(pod, container)
        for pod in pods_of(manifests(Values(), 31)).values()
        for container in pod["containers"]
    }
    assert found == TABLE


@given(st.integers(20, 40), st.sampled_from(["emulated", "nvml"]), st.booleans(), st.booleans())
def test_whatever_the_values_no_container_is_given_more(minor: int, gpus: str, host: bool, network: bool) -> None:
    values = Values(gpus=gpus, hostNetwork=host, networkPolicy=network)
    for name, pod in pods_of(manifests(values, minor)).items():
        assert not {"hostPID", "hostIPC", "shareProcessNamespace", "initContainers"} & set(pod)
        assert pod["serviceAccountName"] == name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"cpu", "memory"} <= set(container["resources"]["requests"])
            assert "cpu" not in container["resources"].get("limits", {})  # nobody is held up while a CPU is free
            assert {"livenessProbe", "readinessProbe"} <= set(container)
            for mount in container["volumeMounts"]:
                assert mount["mountPath"] not in ("/", "/var", "/var/lib", "/var/lib/kubelet", "/dev", "/run", "/etc")


def test_the_node_s_devices_are_seen_by_the_plugin_of_real_gpus_alone_and_not_to_be_written() -> None:
    for gpus, seen in (("emulated", set()), ("nvml", {("gpuyard-device-plugin", True)})):
        found = {
            (name, mount["readOnly"])
            for name, pod in pods_of(manifests(Values(gpus=gpus), 31)).items()
            for volume in pod["volumes"]
            if volume.get("hostPath", {}).get("path") == "/dev"
            for mount in pod["containers"][0]["volumeMounts"]
            if mount["name"] == volume["name"]
        }
        assert found == seen


def test_accounts_give_their_token_to_nobody_who_does_not_ask_for_it() -> None:
    accounts = [each for each in manifests(Values(), 31) if each["kind"] == "ServiceAccount"]
    assert {each["metadata"]["name"] for each in accounts} == ALL
    assert not any(each["automountServiceAccountToken"] for each in accounts)


def test_nobody_may_read_secrets_or_do_everything() -> None:
    rules = [rule for each in manifests(Values(), 31) for rule in each.get("rules", ())]
    assert len(rules) >= 5
    for rule in rules:
        assert "*" not in {*rule["verbs"], *rule["resources"], *rule["apiGroups"]}
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
        assert not {"secrets", "nodes/proxy", "pods/exec", "nodes/status", "serviceaccounts/token"} & set(
            rule["resources"]
        )


@pytest.mark.parametrize("gpus", ["emulated", "nvml"])
def test_no_secret_and_no_shell_stands_in_what_containers_run(gpus: str) -> None:
    pods = pods_of(manifests(Values(gpus=gpus), 31, FILES))
    assert "secret of the test" not in json.dumps(pods)
    for pod in pods.values():
        for container in pod["containers"]:
            commands = [container["command"], container["livenessProbe"].get("exec", {}).get("command", ["gpuyard"])]
            for command in commands:
                assert command[0] in ("gpuyard", "kube-scheduler")
                assert not {"-c", "sh", "bash", "env", "eval"} & set(command)
            assert not [each for each in container["env"] if "secretKeyRef" in json.dumps(each)]


def test_keys_are_in_the_secrets_of_those_who_need_them() -> None:
    keys = [each for each in manifests(Values(), 31, FILES) if each["kind"] == "Secret"]
    assert {each["metadata"]["name"]: sorted(each["data"]) for each in keys} == {
        "gpuyard-extender-tls": ["ca.crt", "tls.crt", "tls.key"],
        "gpuyard-scheduler-tls": ["ca.crt", "client.crt", "client.key"],
    }


def test_only_the_scheduler_reaches_the_extender_over_the_network_and_nobody_the_others() -> None:
    monitor = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}
    made = manifests(Values(metricsFrom=[monitor], listen="0.0.0.0:777"), 31)
    policies = {each["metadata"]["name"]: each["spec"] for each in made if each["kind"] == "NetworkPolicy"}
    (entrance,) = policies["gpuyard-extender"]["ingress"]
    assert entrance["from"] == [{"podSelector": {"matchLabels": {"app": "gpuyard-scheduler"}}}, monitor]
    assert entrance["ports"] == [{"port": 777, "protocol": "TCP"}]
    others = policies["gpuyard-others"]
    assert (others["policyTypes"], others["ingress"]) == (["Ingress"], [])
    named = others["podSelector"]["matchExpressions"][0]["values"]
    assert {*named, policies["gpuyard-extender"]["podSelector"]["matchLabels"]["app"]} == ALL


def test_evictions_take_one_pod_at_a_time_of_those_that_have_replicas() -> None:
    budgets = [each for each in manifests(Values(), 31) if each["kind"] == "PodDisruptionBudget"]
    assert {each["spec"]["selector"]["matchLabels"]["app"] for each in budgets} == {
        "gpuyard-extender",
        "gpuyard-scheduler",
    }
    assert {each["spec"]["maxUnavailable"] for each in budgets} == {1}
