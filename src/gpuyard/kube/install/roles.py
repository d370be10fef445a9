"""What each part may do: no more than it does."""

from __future__ import annotations

from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.learnt import CONFIG_MAP
from gpuyard.kube.resources.custom_kinds import GROUP
from gpuyard.kube.resources.shared_gpu import SHARED_GPUS
from gpuyard.kube.resources.training_task import TRAINING_TASKS

RBAC = "rbac.authorization.k8s.io"


def roles(
    namespace: str, extender: str, scheduler: str, plugin: str, node: str, *, gangs: bool = False
) -> list[JsonObject]:
    """Roles and who has them."""
    return [
        *_role("ClusterRole", extender, extender, namespace, [
            _rule([""], ["nodes"], ["list", "watch"]),
            _rule([""], ["pods"], ["get", "list", "watch"]),
            _rule([""], ["pods/binding"], ["create"]),
            _rule([""], ["pods"], ["patch"]),  # the mark by which the scheduler asks again
            _rule([""], ["events"], ["create", "patch"]),
            _rule([GROUP], [SHARED_GPUS.plural, TRAINING_TASKS.plural], ["list", "watch"]),
            *(_of_gangs() if gangs else []),
        ]),
        *_role("Role", extender, extender, namespace, [
            *_own("coordination.k8s.io", "leases", extender),
            *_own("", "configmaps", CONFIG_MAP),  # what it has learnt
        ]),
        *_role("ClusterRole", plugin, plugin, namespace, [
            _rule([""], ["nodes"], ["patch"]),
            _rule([""], ["pods"], ["list", "patch"]),
        ]),
        *_role("ClusterRole", node, node, namespace, [
            _rule([""], ["nodes"], ["get"]),  # with which its GPUs' objects go
            _rule([""], ["pods"], ["list"]),
            _rule([GROUP], [TRAINING_TASKS.plural], ["get", "list", "watch", "create", "patch"]),
            _rule([GROUP], [SHARED_GPUS.plural], ["list", "create", "patch", "delete"]),
            _rule([GROUP], [f"{each.plural}/status" for each in (SHARED_GPUS, TRAINING_TASKS)], ["patch"]),
        ]),
        *_role("Role", scheduler, scheduler, namespace, _own("coordination.k8s.io", "leases", scheduler)),
        # what every kube-scheduler needs, by the roles that Kubernetes itself has for it
        _bind("ClusterRole", "system:kube-scheduler", f"{scheduler}-as-scheduler", scheduler, namespace),
        _bind("ClusterRole", "system:volume-scheduler", f"{scheduler}-volumes", scheduler, namespace),
        _bind("Role", "extension-apiserver-authentication-reader", scheduler, scheduler, namespace, "kube-system"),
    ]  # fmt: skip


def _of_gangs() -> list[JsonObject]:
    """What it takes to start, stop and follow gangs of pods."""
    return [
        _rule([""], ["pods"], ["create", "delete"]),
        _rule([GROUP], ["trainingjobs"], ["list", "watch"]),
        _rule([GROUP], ["trainingjobs/status"], ["patch"]),
        _rule([GROUP], ["trainingtasks"], ["get", "create", "patch"]),
    ]


def role_of_certificates(namespace: str, account: str, secrets: list[str]) -> list[JsonObject]:
    """To look whether these secrets are there, and to make some; names cannot be told beforehand of what is made."""
    look = {**_rule([""], ["secrets"], ["get"]), "resourceNames": secrets}
    return _role("Role", account, account, namespace, [look, _rule([""], ["secrets"], ["create"])])


def _own(group: str, resource: str, name: str) -> list[JsonObject]:
    """To keep one object, such as the lease of an election: the names of new ones cannot be told beforehand."""
    keep = {**_rule([group], [resource], ["get", "update"]), "resourceNames": [name]}
    return [keep, _rule([group], [resource], ["create"])]


def _rule(groups: list[str], resources: list[str], verbs: list[str]) -> JsonObject:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


def _role(kind: str, name: str, account: str, namespace: str, rules: list[JsonObject]) -> list[JsonObject]:
    where = {"namespace": namespace} if kind == "Role" else {}
    role = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name, **where}, "rules": rules}
    return [role, _bind(kind, name, name, account, namespace, namespace)]


def _bind(kind: str, role: str, name: str, account: str, namespace: str, where: str = "") -> JsonObject:
    """Give a role to a service account; one of a namespace counts there alone."""
    metadata = {"name": name, "namespace": where} if kind == "Role" else {"name": name}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
