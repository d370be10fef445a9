"""The pods that are installed: what each container runs, sees and may do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuyard.kube.install.values import Values
from gpuyard.kube.json_objects import JsonObject

EXTENDER, SCHEDULER = "gpuyard-extender", "gpuyard-scheduler"
PLUGIN, NODE = "gpuyard-device-plugin", "gpuyard-node"
CERTIFICATES = "gpuyard-certificates"
SERVER_SECRET, CLIENT_SECRET = "gpuyard-extender-tls", "gpuyard-scheduler-tls"
TLS, CONFIG = "/etc/gpuyard/tls", "/etc/gpuyard/scheduler"
KUBELET = "/var/lib/kubelet"
DEVICES = "/host/dev"
ALIVE = "/tmp/alive"  # noqa: S108 - each pod's own
UNPRIVILEGED = 65532
READY_S, LIVES_S, ALIVE_S = 15, 60, 90
"""How often a kubelet looks at the heartbeat of a part, which starts a program each time, and how old it may be.

A part must not be ended because a busy node is slow to look: ended while its kubelet admits a pod, it costs that pod.
"""
Places = Mapping[str, tuple[JsonObject, str, bool]]
"""Volumes by their names: what each is, where it is mounted, whether it may be written."""


def extender(values: Values) -> JsonObject:
    """What the scheduler asks; anybody may be it, so it has no right on its node."""
    arguments = [
        *("kube", "extender", "--listen", values.listen, "--lease-namespace", values.namespace),
        *("--multiplex", values.multiplex),
        *(("--jobs", values.jobs, "--round", f"{values.jobsRound:g}") if values.jobs else ()),
        *(("--starvation", values.jobsStarvation) if values.jobs and values.jobsStarvation else ()),
        *(("--quota", values.jobsQuotas) if values.jobs and values.jobsQuotas else ()),
        *("--tls-cert", f"{TLS}/tls.crt", "--tls-key", f"{TLS}/tls.key", "--client-ca", f"{TLS}/ca.crt"),
    ]
    container = {
        **_container("extender", values.image, values, [*values.command, *arguments]),
        "ports": [{"name": "https", "containerPort": values.port, "protocol": "TCP"}],
        "livenessProbe": {**_asks(values, values.port, "/healthz"), "periodSeconds": 10},
        "readinessProbe": {**_asks(values, values.port, "/readyz"), "periodSeconds": 2},
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},  # what it needs grows with the cluster
    }
    container["env"] = [_from_pod("POD_NAME", "metadata.name"), *container["env"]]
    return _unprivileged(values, EXTENDER, container, {"tls": ({"secret": {"secretName": SERVER_SECRET}}, TLS, False)})


def scheduler(values: Values) -> JsonObject:
    """Kubernetes' own scheduler, beside that of the cluster."""
    arguments = [f"--config={CONFIG}/config.yaml", f"--secure-port={values.schedulerPort}"]
    container = {
        **_container("scheduler", values.schedulerImage, values, [*values.schedulerCommand, *arguments]),
        "livenessProbe": {
            **_asks(values, values.schedulerPort, "/healthz"),
            "initialDelaySeconds": 15,
            "periodSeconds": 10,
        },
        "readinessProbe": {**_asks(values, values.schedulerPort, "/healthz"), "periodSeconds": 5},
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},  # the same
    }
    places: Places = {
        "tls": ({"secret": {"secretName": CLIENT_SECRET}}, TLS, False),
        "config": ({"configMap": {"name": SCHEDULER}}, CONFIG, False),
    }
    return _unprivileged(values, SCHEDULER, container, places)


def plugin(values: Values) -> JsonObject:
    """What offers the GPUs of a node: root, as the kubelet's sockets are root's, which may do nothing else as such."""
    real = values.gpus == "nvml"
    arguments = ["kube", "device-plugin", *_gpus(values)]
    if real:
        arguments += ["--devices", DEVICES]
    else:
        arguments += ["--speed", f"{values.speed:g}", "--shared-memory", values.sharedMemory]
    arguments += ["--libraries", values.libraries, "--tasks", values.tasks]
    container = _on_node("device-plugin", values, arguments)
    given = [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
    ]
    container["env"] = [_from_pod("NODE_NAME", "spec.nodeName"), *(given if real else ()), *container["env"]]
    places: dict[str, tuple[JsonObject, str, bool]] = {
        "plugins": _folder(f"{KUBELET}/device-plugins", "Directory", writable=True),
        "pod-resources": _folder(f"{KUBELET}/pod-resources", "Directory"),
        "libraries": _folder(values.libraries, writable=True),
        "tasks": _folder(values.tasks, writable=True),
    }
    if real:
        places["devices"] = ({"hostPath": {"path": "/dev", "type": "Directory"}}, DEVICES, False)
    else:
        places["shm"] = _folder(values.sharedMemory, writable=True)
    pod = _pod(values, PLUGIN, container, places, speaks_with_api=True)
    return pod | ({"runtimeClassName": values.runtimeClass} if values.runtimeClass else {}) | _each_node(values)


def node_daemon(values: Values) -> JsonObject:
    """What tasks of a node speak with: it sees their folder, in which the device plugin says which pods they are."""
    container = _on_node("node", values, ["kube", "node", *_gpus(values), "--tasks", values.tasks])
    container["env"] = [_from_pod("NODE_NAME", "spec.nodeName"), *container["env"]]
    places: Places = {"tasks": _folder(values.tasks, writable=True)}
    return _pod(values, NODE, container, places, speaks_with_api=True) | _each_node(values)


def certificate_maker(values: Values) -> JsonObject:
    """What makes the certificates in the cluster, once: keys are in its memory and in what it tells the API server."""
    command = [*values.command, "kube", "certificates", "--namespace", values.namespace]
    container = {
        **_container("certificates", values.image, values, command),
        "resources": {"requests": {"cpu": "20m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
    }
    return _unprivileged(values, CERTIFICATES, container, {}) | {"restartPolicy": "OnFailure"}


def _gpus(values: Values) -> list[str]:
    return ["--real"] if values.gpus == "nvml" else ["--emulated", values.emulated]


def _on_node(name: str, values: Values, arguments: Sequence[str]) -> JsonObject:
    """A container that tells by a heartbeat that it works."""

    def looks(period_s: int) -> JsonObject:
        command = [*values.command, "kube", "alive", ALIVE, "--within", f"{ALIVE_S}"]
        return {"exec": {"command": command}, "periodSeconds": period_s, "timeoutSeconds": period_s}

    return {
        **_container(name, values.image, values, [*values.command, *arguments, "--heartbeat", ALIVE]),
        "livenessProbe": {**looks(LIVES_S), "initialDelaySeconds": ALIVE_S, "failureThreshold": 5},
        "readinessProbe": looks(READY_S),
        "resources": {"requests": {"cpu": "20m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
    }


def _asks(values: Values, port: int, path: str) -> JsonObject:
    """A probe over HTTPS; on the node's own network by loopback, wherever else is listened."""
    where = {"scheme": "HTTPS", "port": port, "path": path} | ({"host": "127.0.0.1"} if values.hostNetwork else {})
    return {"httpGet": where, "timeoutSeconds": 5}


def _folder(path: str, kind: str = "DirectoryOrCreate", *, writable: bool = False) -> tuple[JsonObject, str, bool]:
    """A folder of the node, under its own name."""
    return {"hostPath": {"path": path, "type": kind}}, path, writable


def _each_node(values: Values) -> JsonObject:
    return {
        "nodeSelector": values.nodeSelector,
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "system-node-critical",
        "securityContext": {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}},
    }


def _unprivileged(values: Values, account: str, container: JsonObject, places: Places) -> JsonObject:
    return _pod(values, account, container, places, speaks_with_api=True) | {
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": UNPRIVILEGED,
            "runAsGroup": UNPRIVILEGED,
            "fsGroup": UNPRIVILEGED,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    }


def _pod(values: Values, account: str, container: JsonObject, places: Places, *, speaks_with_api: bool) -> JsonObject:
    mounts = [
        {"name": name, "mountPath": where, "readOnly": not writable} for name, (_, where, writable) in places.items()
    ]
    temporary = {"name": "tmp", "mountPath": "/tmp"}  # noqa: S108
    container["volumeMounts"] = [*mounts, temporary, *values.volumeMounts]
    volumes = [{"name": name, **content} for name, (content, _, _) in places.items()]
    return {
        "serviceAccountName": account,
        "automountServiceAccountToken": speaks_with_api,
        "hostNetwork": values.hostNetwork,
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
