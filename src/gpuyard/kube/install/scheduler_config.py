"""The configuration of a kube-scheduler that asks gpuyard: one beside the cluster's own, which stays as it is."""

from __future__ import annotations

import json
from typing import Any

from gpuyard.kube import names
from gpuyard.kube.install.values import Values

ANSWER_S = 5
WEIGHT = 10
"""Of the extender's scores beside those of the scheduler itself."""
LEASE = "gpuyard-scheduler"


def scheduler_config(values: Values, minor: int, tls: str) -> str:
    """The file, for this version of Kubernetes 1.x; `tls` is the folder of the certificates."""
    profiles = [{"schedulerName": each} for each in (names.SCHEDULER_NAME, names.IADEEP_SCHEDULER_NAME)]
    extender: dict[str, Any] = {
        "urlPrefix": values.url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "bindVerb": "bind",
        "weight": WEIGHT,
        "enableHTTPS": True,
        "tlsConfig": {
            "caFile": f"{tls}/ca.crt",
            "certFile": f"{tls}/client.crt",
            "keyFile": f"{tls}/client.key",
        },
        "httpTimeout": f"{ANSWER_S}s",
        "nodeCacheCapable": True,
        "ignorable": False,
        "managedResources": [{"name": each, "ignoredByScheduler": False} for each in names.RESOURCES_OF_PODS],
    }
    election = {"leaderElect": True, "resourceNamespace": values.namespace, "resourceName": LEASE}
    config = {
        "apiVersion": f"kubescheduler.config.k8s.io/{_version(minor)}",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {**election, "resourceLock": "leases"},
        "profiles": profiles,
        "extenders": [extender],
    }
    return json.dumps(config, indent=1)


def _version(minor: int) -> str:
    """The version of the file that a scheduler of 1.x reads, and the next ones do, too, as far as possible."""
    return "v1" if minor >= 25 else "v1beta2" if minor >= 22 else "v1beta1"
