"""All that is installed, as the API server is told of it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from gpuyard.kube import names
from gpuyard.kube.install import pods
from gpuyard.kube.install.pods import CLIENT_SECRET, EXTENDER, NODE, PLUGIN, SCHEDULER, SERVER_SECRET, TLS
from gpuyard.kube.install.roles import roles
from gpuyard.kube.install.scheduler_config import scheduler_config
from gpuyard.kube.install.values import Values
from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.resources.definitions import definitions

LABEL = "app.kubernetes.io/part-of"


def manifests(values: Values, minor: int, secrets: Mapping[str, bytes] | None = None) -> list[JsonObject]:
    """Everything, in the order in which it is made; `minor` of Kubernetes 1.x says in which version of the API."""
    found = [
        *definitions(),
        object_of("v1", "Namespace", values.namespace, None),
        *(account(name, values) for name in (EXTENDER, SCHEDULER, PLUGIN, NODE)),
        *roles(values.namespace, EXTENDER, SCHEDULER, PLUGIN, NODE, gangs=bool(values.jobs)),
        *(secret_objects(values, secrets) if secrets else []),
        object_of("v1", "ConfigMap", SCHEDULER, values, data={"config.yaml": scheduler_config(values, minor, TLS)}),
        _service(values),
        *(_budget(name, values, minor) for name in (EXTENDER, SCHEDULER)),
        *_network(values),
        _deployment(EXTENDER, values, pods.extender(values)),
        _deployment(SCHEDULER, values, pods.scheduler(values)),
        object_of("apps/v1", "DaemonSet", PLUGIN, values, spec=_workload(PLUGIN, pods.plugin(values))),
        object_of("apps/v1", "DaemonSet", NODE, values, spec=_workload(NODE, pods.node_daemon(values))),
    ]
    return marked(found)


def marked(things: list[JsonObject]) -> list[JsonObject]:
    """Objects with the label that tells that they are of gpuyard."""
    for each in things:
        each["metadata"].setdefault("labels", {})[LABEL] = "gpuyard"
    return things


def secret_objects(values: Values, files: Mapping[str, bytes]) -> list[JsonObject]:
    """The certificates and keys of the extender, and those of the scheduler."""

    def secret(name: str, *wanted: str) -> JsonObject:
        data = {file: base64.b64encode(files[file]).decode() for file in wanted}
        return object_of("v1", "Secret", name, values, type="Opaque", data=data)

    server = secret(SERVER_SECRET, "ca.crt", "tls.crt", "tls.key")
    return [server, secret(CLIENT_SECRET, "ca.crt", "client.crt", "client.key")]


def object_of(version: str, kind: str, name: str, values: Values | None, **content: Any) -> JsonObject:
    """An object in gpuyard's namespace, or without `values` in none."""
    metadata = {"name": name} | ({"namespace": values.namespace} if values else {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}


def account(name: str, values: Values) -> JsonObject:
    """Pods say themselves whether they need its token."""
    return object_of("v1", "ServiceAccount", name, values, automountServiceAccountToken=False)


def _service(values: Values) -> JsonObject:
    port = {"name": "https", "port": values.port, "protocol": "TCP"}
    selector = {"app": EXTENDER, names.LEADS: "true"}
    return object_of("v1", "Service", EXTENDER, values, spec={"selector": selector, "ports": [port]})


def _budget(name: str, values: Values, minor: int) -> JsonObject:
    version = "policy/v1" if minor >= 21 else "policy/v1beta1"
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}}
    return object_of(version, "PodDisruptionBudget", name, values, spec=spec)


def _network(values: Values) -> list[JsonObject]:
    """Only the scheduler reaches the extender, and nobody the others; nodes' own networks know no such rules."""
    if not values.networkPolicy:
        return []
    schedulers = {"podSelector": {"matchLabels": {"app": SCHEDULER}}}
    entrance = {"from": [schedulers, *values.metricsFrom], "ports": [{"port": values.port, "protocol": "TCP"}]}
    others = {"matchExpressions": [{"key": "app", "operator": "In", "values": [SCHEDULER, PLUGIN, NODE]}]}
    return [
        _policy(EXTENDER, values, {"matchLabels": {"app": EXTENDER}}, [entrance]),
        _policy("gpuyard-others", values, others, []),
    ]


def _policy(name: str, values: Values, of: JsonObject, entrances: list[JsonObject]) -> JsonObject:
    spec = {"podSelector": of, "policyTypes": ["Ingress"], "ingress": entrances}
    return object_of("networking.k8s.io/v1", "NetworkPolicy", name, values, spec=spec)


def _deployment(name: str, values: Values, pod: JsonObject) -> JsonObject:
    return object_of("apps/v1", "Deployment", name, values, spec={"replicas": values.replicas, **_workload(name, pod)})


def _workload(name: str, pod: JsonObject) -> JsonObject:
    labels = {"app": name, LABEL: "gpuyard"}
    return {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": labels}, "spec": pod}}
