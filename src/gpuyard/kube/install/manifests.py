"""All that is installed, as the API server is told of it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from gpuyard.kube import names
from gpuyard.kube.install.roles import roles
from gpuyard.kube.install.scheduler_config import scheduler_config
from gpuyard.kube.install.values import Values
from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.resources.definitions import definitions

EXTENDER, SCHEDULER, PLUGIN = "gpuyard-extender", "gpuyard-scheduler", "gpuyard-device-plugin"
SERVER_SECRET, CLIENT_SECRET = "gpuyard-extender-tls", "gpuyard-scheduler-tls"
LABEL = "app.kubernetes.io/part-of"
TLS, CONFIG = "/etc/gpuyard/tls", "/etc/gpuyard/scheduler"
KUBELET = "/var/lib/kubelet"
TEMPORARY = {"name": "tmp", "mountPath": "/tmp"}  # noqa: S108 - each pod's own


def manifests(values: Values, minor: int, secrets: Mapping[str, bytes] | None = None) -> list[JsonObject]:
    """Everything, in the order in which it is made; `minor` of Kubernetes 1.x says in which version of the API."""
    found = [
        *definitions(),
        _object("v1", "Namespace", values.namespace, None),
        *(_object("v1", "ServiceAccount", name, values) for name in (EXTENDER, SCHEDULER, PLUGIN)),
        *roles(values.namespace, EXTENDER, SCHEDULER, PLUGIN),
        *(_secrets(values, secrets) if secrets else []),
        _object("v1", "ConfigMap", SCHEDULER, values, data={"config.yaml": scheduler_config(values, minor, TLS)}),
        _service(values),
        _budget(values, minor),
        _extender(values),
        _scheduler(values),
        _plugin(values),
    ]
    for each in found:
        each["metadata"].setdefault("labels", {})[LABEL] = "gpuyard"
    return found


def _object(version: str, kind: str, name: str, values: Values | None, **content: Any) -> JsonObject:
    metadata = {"name": name} | ({"namespace": values.namespace} if values else {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}


def _secrets(values: Values, files: Mapping[str, bytes]) -> list[JsonObject]:
    def secret(name: str, *wanted: str) -> JsonObject:
        data = {file: base64.b64encode(files[file]).decode() for file in wanted}
        return _object("v1", "Secret", name, values, type="Opaque", data=data)

    server = secret(SERVER_SECRET, "ca.crt", "tls.crt", "tls.key")
    return [server, secret(CLIENT_SECRET, "ca.crt", "client.crt", "client.key")]


def _service(values: Values) -> JsonObject:
    port = {"name": "https", "port": int(values.listen.rpartition(":")[2]), "protocol": "TCP"}
    selector = {"app": EXTENDER, names.LEADS: "true"}
    return _object("v1", "Service", EXTENDER, values, spec={"selector": selector, "ports": [port]})


def _budget(values: Values, minor: int) -> JsonObject:
    version = "policy/v1" if minor >= 21 else "policy/v1beta1"
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": EXTENDER}}}
    return _object(version, "PodDisruptionBudget", EXTENDER, values, spec=spec)


def _extender(values: Values) -> JsonObject:
    arguments = [
        *("kube", "extender", "--listen", values.listen, "--lease-namespace", values.namespace),
        *("--multiplex", values.multiplex),
        *("--tls-cert", f"{TLS}/tls.crt", "--tls-key", f"{TLS}/tls.key", "--client-ca", f"{TLS}/ca.crt"),
    ]
    probe = {"scheme": "HTTPS", "port": int(values.listen.rpartition(":")[2])}
    if values.hostNetwork:
        probe["host"] = "127.0.0.1"
    container = {
        **_container("extender", values.image, values, [*values.command, *arguments]),
        "ports": [{"name": "https", "containerPort": probe["port"], "protocol": "TCP"}],
        "livenessProbe": {"httpGet": {**probe, "path": "/healthz"}, "periodSeconds": 10, "timeoutSeconds": 5},
        "readinessProbe": {"httpGet": {**probe, "path": "/readyz"}, "periodSeconds": 2, "timeoutSeconds": 5},
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
    }
    container["env"] = [_from_pod("POD_NAME", "metadata.name"), *container["env"]]
    return _deployment(values, EXTENDER, container, {"tls": ("secret", {"secretName": SERVER_SECRET}, TLS)})


def _scheduler(values: Values) -> JsonObject:
    container = {
        **_container(
            "scheduler", values.schedulerImage, values, [*values.schedulerCommand, f"--config={CONFIG}/config.yaml"]
        ),
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    return _deployment(
        values,
        SCHEDULER,
        container,
        {
            "tls": ("secret", {"secretName": CLIENT_SECRET}, TLS),
            "config": ("configMap", {"name": SCHEDULER}, CONFIG),
        },
    )


def _plugin(values: Values) -> JsonObject:
    """What is on each node; it runs as root, as the kubelet's sockets are root's, and may do nothing else as such."""
    arguments = [
        *("kube", "device-plugin", "--emulated", values.emulated, "--speed", f"{values.speed:g}"),
        *("--libraries", values.libraries, "--shared-memory", values.sharedMemory, "--tasks", values.tasks),
    ]
    container = {
        **_container("device-plugin", values.image, values, [*values.command, *arguments]),
        "resources": {"requests": {"cpu": "20m", "memory": "128Mi"}},
    }
    container["env"] = [_from_pod("NODE_NAME", "spec.nodeName"), *container["env"]]
    daemon = {
        **_container(
            "node",
            values.image,
            values,
            [
                *values.command,
                "kube",
                "node",
                "--emulated",
                values.emulated,
                "--tasks",
                values.tasks,
            ],
        ),
        "resources": {"requests": {"cpu": "20m", "memory": "128Mi"}},
    }
    places = {
        "plugins": ("hostPath", {"path": f"{KUBELET}/device-plugins"}, f"{KUBELET}/device-plugins"),
        "pod-resources": ("hostPath", {"path": f"{KUBELET}/pod-resources"}, f"{KUBELET}/pod-resources"),
        "libraries": ("hostPath", {"path": values.libraries, "type": "DirectoryOrCreate"}, values.libraries),
        "tasks": ("hostPath", {"path": values.tasks, "type": "DirectoryOrCreate"}, values.tasks),
        "shm": ("hostPath", {"path": values.sharedMemory, "type": "DirectoryOrCreate"}, values.sharedMemory),
    }
    pod = _pod(values, PLUGIN, container, places)
    own = [{"name": "tasks", "mountPath": values.tasks}, TEMPORARY]
    pod["containers"].append({**daemon, "volumeMounts": [*own, *values.volumeMounts]})
    pod |= {"nodeSelector": values.nodeSelector, "tolerations": [{"operator": "Exists"}]}
    pod["priorityClassName"] = "system-node-critical"
    pod["securityContext"] = {"seccompProfile": {"type": "RuntimeDefault"}}
    pod["hostNetwork"] = values.hostNetwork
    return _object("apps/v1", "DaemonSet", PLUGIN, values, spec=_workload(PLUGIN, pod))


def _deployment(
    values: Values, name: str, container: JsonObject, places: Mapping[str, tuple[str, JsonObject, str]]
) -> JsonObject:
    pod = _pod(values, name, container, places)
    pod["securityContext"] = {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    pod["hostNetwork"] = values.hostNetwork
    return _object("apps/v1", "Deployment", name, values, spec={"replicas": values.replicas, **_workload(name, pod)})


def _workload(name: str, pod: JsonObject) -> JsonObject:
    labels = {"app": name, LABEL: "gpuyard"}
    return {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": labels}, "spec": pod}}


def _pod(
    values: Values, account: str, container: JsonObject, places: Mapping[str, tuple[str, JsonObject, str]]
) -> JsonObject:
    writable = {"plugins", "libraries", "shm", "tasks"}
    mounts = [
        {"name": name, "mountPath": where, "readOnly": name not in writable} for name, (_, _, where) in places.items()
    ]
    container["volumeMounts"] = [*mounts, TEMPORARY, *values.volumeMounts]
    volumes = [{"name": name, kind: content} for name, (kind, content, _) in places.items()]
    return {
        "serviceAccountName": account,
        "containers": [container],
        "volumes": [*volumes, {"name": "tmp", "emptyDir": {}}, *values.volumes],
    }


def _from_pod(variable: str, field: str) -> JsonObject:
    return {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": field}}}


def _container(name: str, image: str, values: Values, command: list[str]) -> JsonObject:
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": values.imagePullPolicy,
        "command": command,
        "env": list(values.env),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
