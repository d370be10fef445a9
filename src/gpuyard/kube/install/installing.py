"""Puts manifests into a cluster, takes them out again, and waits until what they describe runs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable

from gpuyard.core.errors import GpuyardError
from gpuyard.kube.client.api import APPLY, Api, ApiError
from gpuyard.kube.json_objects import JsonObject

_PLURALS = {
    "Namespace": "namespaces", "ServiceAccount": "serviceaccounts", "Secret": "secrets", "ConfigMap": "configmaps",
    "Service": "services", "Deployment": "deployments", "DaemonSet": "daemonsets", "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings", "Role": "roles", "RoleBinding": "rolebindings",
    "PodDisruptionBudget": "poddisruptionbudgets", "NetworkPolicy": "networkpolicies",
    "CustomResourceDefinition": "customresourcedefinitions",
}  # fmt: skip
DEFINITION = "CustomResourceDefinition"
WAITED_FOR = (DEFINITION, "Deployment", "DaemonSet")
LOOK_S = 1.0


def path_of(thing: JsonObject) -> str:
    """Where an object is."""
    version, metadata = thing["apiVersion"], thing["metadata"]
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    space = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{group}{space}/{_PLURALS[thing['kind']]}/{metadata['name']}"


def minor_version(api: Api) -> int:
    """The 20 of Kubernetes 1.20."""
    found = re.match(r"\d+", str(api.get("/version").get("minor")))
    if found is None:
        raise GpuyardError("the API server does not say which version of Kubernetes it is")
    return int(found[0])


def apply_all(api: Api, things: Iterable[JsonObject]) -> list[str]:
    """Make all objects be as they are described; returns where they are."""
    paths = []
    for thing in things:
        path = path_of(thing)
        api.patch(path, thing, kind=APPLY, fieldManager="gpuyard", force="true")
        paths.append(path)
    return paths


def remove_all(api: Api, things: Iterable[JsonObject]) -> list[str]:
    """Remove objects, the last ones first; returns those that were there, and what went with them."""
    removed = []
    for thing in reversed(list(things)):
        path = path_of(thing)
        try:
            going = _goes_with(api, thing)
            api.delete(path)
        except ApiError as error:
            if not error.not_found:
                raise
        else:
            removed.append(path + going)
    return removed


def _goes_with(api: Api, thing: JsonObject) -> str:
    """In words, the objects that a definition takes with it."""
    if thing["kind"] != DEFINITION:
        return ""
    spec = thing["spec"]
    found = api.get(f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}")
    return f", and with it {len(found['items'])} objects of the kind {spec['names']['kind']}"


def is_there(api: Api, thing: JsonObject) -> bool:
    """Whether an object exists."""
    try:
        api.get(path_of(thing))
    except ApiError as error:
        if error.not_found:
            return False
        raise
    return True


def make_once(api: Api, things: Iterable[JsonObject]) -> list[str]:
    """Make objects that belong together unless they are there; returns where those are that were made."""
    wanted = list(things)
    there = [path_of(each) for each in wanted if is_there(api, each)]
    if len(there) == len(wanted):
        return []
    if there:
        rule = f"{', '.join(there)} is there and others that belong to it are not: remove it, so that all are made"
        raise GpuyardError(rule)
    for each in wanted:
        api.post(path_of(each).rpartition("/")[0], each)
    return [path_of(each) for each in wanted]


def wait_until_ready(api: Api, things: Iterable[JsonObject], seconds: float, say: Callable[[str], None]) -> None:
    """Wait for kinds, deployments and daemon sets; GpuyardError names what is not ready in time."""
    end = time.monotonic() + seconds
    waited = ""
    for thing in things:
        if thing["kind"] not in WAITED_FOR:
            continue
        while missing := _missing(api.get(path_of(thing))):
            if time.monotonic() > end:
                raise GpuyardError(f"{thing['metadata']['name']} is not ready after {seconds:g} s: {missing}")
            if missing != waited:
                say(f"{thing['metadata']['name']}: {missing}")
                waited = missing
            time.sleep(LOOK_S)


def _missing(found: JsonObject) -> str:
    """What is not ready yet of a kind, a deployment, of whose replicas one leads and is ready, or a daemon set."""
    status = found.get("status") or {}
    if found["kind"] == DEFINITION:
        told = {each["type"]: each["status"] for each in status.get("conditions") or ()}
        return "" if told.get("Established") == "True" else "not served yet"
    if int(status.get("observedGeneration") or 0) < int(found["metadata"].get("generation") or 0):
        return "not looked at yet"
    if found["kind"] == "Deployment":
        ready = int(status.get("readyReplicas") or 0)
        return "" if ready else "none of its pods is ready"
    wanted, ready = int(status.get("desiredNumberScheduled") or 0), int(status.get("numberReady") or 0)
    return "" if ready == wanted else f"{ready} of {wanted} pods are ready"
