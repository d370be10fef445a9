"""Kinds of objects that gpuyard defines: where they are, how they are read and made, how a cluster is told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.resources.records import read_record, schema, write_record

GROUP, VERSION = "gpuyard.io", "v1alpha1"

Spec = TypeVar("Spec")
State = TypeVar("State")


@dataclass(frozen=True)
class CustomObject(Generic[Spec, State]):
    """One object: what is wanted, and what is."""

    name: str
    namespace: str
    """Empty for objects of the whole cluster."""
    spec: Spec
    status: State
    uid: str = ""
    generation: int = 0
    """Grows whenever `spec` changes."""
    version: str = ""
    """Of the whole object: `metadata.resourceVersion`."""
    labels: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[str, ...] = ()
    """The uids of the objects with which this one goes."""
    going: bool = False
    """Whether somebody has asked for it to be removed."""


@dataclass(frozen=True)
class Column:
    """What `kubectl get` shows of an object."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False
    """Only with `-o wide`."""


@dataclass(frozen=True)
class CustomKind(Generic[Spec, State]):
    """A kind of objects. What they are to be and what they are is written apart (the status subresource)."""

    kind: str
    plural: str
    short: str
    namespaced: bool
    meaning: str
    spec: type[Spec]
    status: type[State]
    required: tuple[str, ...]
    """Fields of `spec` without which an object makes no sense."""
    columns: Sequence[Column]

    def folder(self, namespace: str = "") -> str:
        """Where the objects of a namespace are listed; without one, those of the cluster."""
        space = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        return f"/apis/{GROUP}/{VERSION}{space}/{self.plural}"

    def path(self, name: str, namespace: str = "") -> str:
        """Where one object is."""
        return f"{self.folder(namespace)}/{quote(name, safe='')}"

    def status_path(self, name: str, namespace: str = "") -> str:
        """Where its status is written: who writes there changes nothing else, and who writes elsewhere not this."""
        return f"{self.path(name, namespace)}/status"

    def read(self, thing: Mapping[str, Any]) -> CustomObject[Spec, State]:
        """Read an object, whatever it lacks."""
        metadata = thing.get("metadata") or {}
        return CustomObject(
            name=str(metadata.get("name", "")),
            namespace=str(metadata.get("namespace") or ""),
            spec=read_record(self.spec, thing.get("spec")),
            status=read_record(self.status, thing.get("status")),
            uid=str(metadata.get("uid", "")),
            generation=int(metadata.get("generation") or 0),
            version=str(metadata.get("resourceVersion", "")),
            labels=metadata.get("labels") or {},
            owners=tuple(str(each.get("uid", "")) for each in metadata.get("ownerReferences") or ()),
            going=bool(metadata.get("deletionTimestamp")),
        )

    def new(
        self,
        name: str,
        spec: Spec,
        *,
        namespace: str = "",
        owner: JsonObject | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> JsonObject:
        """What creates an object; it goes when its owner goes (`owner_reference`)."""
        metadata: JsonObject = {"name": name} | ({"namespace": namespace} if namespace else {})
        metadata |= {"ownerReferences": [owner]} if owner else {}
        metadata |= {"labels": dict(labels)} if labels else {}
        return {"apiVersion": f"{GROUP}/{VERSION}", "kind": self.kind, "metadata": metadata, "spec": write_record(spec)}

    def definition(self) -> JsonObject:
        """The CustomResourceDefinition, for every Kubernetes from 1.16 on."""
        version = {
            "name": VERSION,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "additionalPrinterColumns": [_printed(each) for each in self.columns],
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "description": self.meaning,
                    "required": ["spec"],
                    "properties": {"spec": schema(self.spec, self.required), "status": schema(self.status)},
                }
            },
        }
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{self.plural}.{GROUP}"},
            "spec": {
                "group": GROUP,
                "names": {
                    "kind": self.kind,
                    "listKind": f"{self.kind}List",
                    "plural": self.plural,
                    "singular": self.kind.lower(),
                    "shortNames": [self.short],
                    "categories": ["gpuyard"],
                },
                "scope": "Namespaced" if self.namespaced else "Cluster",
                "versions": [version],
            },
        }


def owner_reference(kind: str, name: str, uid: str, version: str = "v1") -> JsonObject:
    """By which an object is removed when another one is; it does not keep that one from going."""
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid}


def _printed(column: Column) -> JsonObject:
    shown = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return shown | ({"priority": 1} if column.wide else {})
