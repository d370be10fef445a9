"""What an API server does with objects of kinds that were defined in it: their schema, status and generation."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

Json = dict[str, Any]
DEFINITION = "CustomResourceDefinition"
OURS = "gpuyard.io"
"""The group of kinds that an API server learns of by their definitions."""
_PYTHON = {"string": str, "boolean": bool, "array": list, "object": dict}


class InvalidError(Exception):
    """An object breaks the schema of its kind."""


def definition_for(path: str, objects: Mapping[str, Json]) -> Json | None:
    """The definition of the kind of what is at a path; KeyError if there should be one and is none."""
    parts = path.split("/")
    if parts[1] != "apis" or parts[2] != OURS:
        return None
    plural = parts[6] if parts[4] == "namespaces" else parts[4]
    found = objects[f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{parts[2]}"]
    if parts[3] not in [each["name"] for each in found["spec"]["versions"]]:
        raise KeyError(parts[3])
    return found


def stored(definition: Json, before: Json | None, after: Json, *, status: bool) -> Json:
    """What is kept of a new or changed object: with its status as before, or nothing but that changed."""
    kept = deepcopy(after)
    if status:
        assert before is not None
        kept = {**deepcopy(before), "status": kept.get("status", {})}
    elif before is not None and "status" in before:
        kept["status"] = deepcopy(before["status"])
    else:
        kept.pop("status", None)
    shape = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    metadata = {**(before or {"metadata": {}})["metadata"], **kept["metadata"]}
    told = {key: kept.get(key) for key in ("apiVersion", "kind")}
    content = {key: value for key, value in kept.items() if key not in {"metadata", *told}}
    kept = {**told, "metadata": metadata, **_pruned(shape, content, definition["spec"]["names"]["kind"])}
    changed = before is None or before.get("spec") != kept.get("spec")
    metadata["generation"] = (before or {"metadata": {}})["metadata"].get("generation", 0) + changed
    return kept


def _pruned(shape: Json, value: Any, where: str) -> Any:
    """A value without what its schema does not know; InvalidError if something is of another type."""
    kind = shape["type"]
    if value is None and not shape.get("nullable"):
        raise InvalidError(f"{where}: must be {kind}, not null")
    if value == "":  # as servers of 1.20 do that a present Go has compiled
        raise InvalidError(f"{where}: Invalid value: null: must be of type {kind}")
    good = type(value) in (int, float) if kind == "number" else type(value) is _PYTHON.get(kind, int)
    if not good or ("enum" in shape and value not in shape["enum"]):
        raise InvalidError(f"{where}: {value!r} is not {shape.get('enum', kind)}")
    if "minimum" in shape and value < shape["minimum"]:
        raise InvalidError(f"{where}: {value!r} is less than {shape['minimum']}")
    if kind == "array":
        return [_pruned(shape["items"], each, f"{where}[{number}]") for number, each in enumerate(value)]
    if kind != "object" or shape.get("x-kubernetes-preserve-unknown-fields"):
        return value
    for needed in shape.get("required", ()):
        if needed not in value:
            raise InvalidError(f"{where}.{needed}: required")
    if "additionalProperties" in shape:
        return {key: _pruned(shape["additionalProperties"], each, f"{where}.{key}") for key, each in value.items()}
    known = shape.get("properties", {})
    return {key: _pruned(known[key], each, f"{where}.{key}") for key, each in value.items() if key in known}
