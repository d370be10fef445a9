"""Whether a request of the API is within the rules that a service account has, as Kubernetes decides it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

Manifest = dict[str, Any]
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}


@dataclass(frozen=True)
class ApiRequest:
    """What is asked for: the attributes that Kubernetes' rules are about."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str

    @classmethod
    def of(cls, method: str, path: str) -> ApiRequest:
        asked = urlsplit(path)
        parts = asked.path.strip("/").split("/")
        group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        resource, name, below = (*rest, "", "")[:3]
        verb = VERBS[method]
        if verb == "get" and not name:
            verb = "watch" if "watch" in parse_qs(asked.query) else "list"
        return cls(verb, group, f"{resource}/{below}" if below else resource, namespace, name)


@dataclass(frozen=True)
class Grant:
    """One thing that one account may do: in one namespace or, if that is empty, in all; to some names or to all."""

    account: str
    verb: str
    group: str
    resource: str
    namespace: str
    names: frozenset[str]

    def allows(self, asked: ApiRequest) -> bool:
        same = (self.verb, self.group, self.resource) == (asked.verb, asked.group, asked.resource)
        return same and self.namespace in ("", asked.namespace) and (not self.names or asked.name in self.names)


def grants(things: Iterable[Manifest]) -> list[Grant]:
    """All that accounts are given by roles among these objects."""
    made = list(things)
    roles = {(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]): each for each in made}
    found = []
    for binding in made:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        space = binding["metadata"].get("namespace", "")
        role = binding["roleRef"]
        key = (role["kind"], space if role["kind"] == "Role" else None, role["name"])
        for rule in roles[key]["rules"] if key in roles else ():
            found += [
                Grant(subject["name"], verb, group, resource, space, frozenset(rule.get("resourceNames", ())))
                for subject in binding["subjects"]
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
            ]
    return found
