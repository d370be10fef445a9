"""Everything that is installed, against the schemas of Kubernetes' own objects: each version that the package has."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import kubernetes_validate
import pytest
from kubernetes_validate import utils

from gpuyard.kube.install.certificate_job import certificate_job
from gpuyard.kube.install.manifests import manifests
from gpuyard.kube.install.values import Values

FILES = dict.fromkeys(("ca.crt", "tls.crt", "tls.key", "client.crt", "client.key"), b"a certificate")
MINORS = sorted({int(str(version).split(".")[1]) for version in utils.all_versions()})
VOLUME: dict[str, Any] = {"name": "more", "emptyDir": {}}
SEVERAL = (
    Values(),
    Values(
        gpus="nvml",
        runtimeClass="nvidia",
        hostNetwork=True,
        env=[{"name": "A", "value": "b"}],
        volumes=[VOLUME],
        volumeMounts=[{"name": "more", "mountPath": "/more"}],
        metricsFrom=[{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
    ),
)


@pytest.fixture(autouse=True)
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The schemas of a version are some megabytes, which the package reads again for each object."""
    monkeypatch.setattr(utils, "schema_contents", cache(utils.schema_contents))


def test_the_package_knows_current_versions() -> None:
    assert MINORS[0] <= 25
    assert MINORS[-1] >= 37


@pytest.mark.parametrize("minor", MINORS)
def test_everything_that_is_installed_is_known_to_this_version_field_by_field(minor: int) -> None:
    for values in SEVERAL:
        made = [*manifests(values, minor, FILES), *certificate_job(values)]
        assert len(made) > 20
        for each in made:
            kubernetes_validate.validate(each, f"1.{minor}", strict=True)


def test_a_field_that_does_not_exist_is_found() -> None:
    (wrong,) = [each for each in manifests(Values(), 31) if each["kind"] == "Service"]
    wrong["spec"]["selectr"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="selectr"):
        kubernetes_validate.validate(wrong, "1.31", strict=True)


KNOWN_TO_SCHEDULERS = {
    "v1beta1": range(19, 23),
    "v1beta2": range(22, 28),
    "v1": range(25, 100),
}
"""Which schedulers of Kubernetes 1.x read which version of their file (KEP-785)."""
FIELDS = {
    "": {"apiVersion", "kind", "leaderElection", "profiles", "extenders"},
    "leaderElection": {"leaderElect", "resourceNamespace", "resourceName", "resourceLock"},
    "tlsConfig": {"insecure", "serverName", "certFile", "keyFile", "caFile", "certData", "keyData", "caData"},
    "profiles": {"schedulerName", "plugins", "pluginConfig"},
    "managedResources": {"name", "ignoredByScheduler"},
    "extenders": {
        "urlPrefix", "filterVerb", "preemptVerb", "prioritizeVerb", "weight", "bindVerb", "enableHTTPS", "tlsConfig",
        "httpTimeout", "nodeCacheCapable", "managedResources", "ignorable",
    },
}  # fmt: skip
"""What all these versions have in common; the package has no schema of this file."""


@pytest.mark.parametrize("minor", range(20, 40))
def test_the_scheduler_s_file_is_of_a_version_that_this_scheduler_reads_with_fields_that_all_have(minor: int) -> None:
    (config,) = [each for each in manifests(Values(), minor) if each["kind"] == "ConfigMap"]
    found = json.loads(config["data"]["config.yaml"])
    group, _, version = found["apiVersion"].partition("/")
    assert (group, found["kind"]) == ("kubescheduler.config.k8s.io", "KubeSchedulerConfiguration")
    assert minor in KNOWN_TO_SCHEDULERS[version]
    assert_known(found, "")


def assert_known(thing: dict[str, Any], where: str) -> None:
    assert set(thing) <= FIELDS[where]
    for name, value in thing.items():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                assert_known(each, name)
