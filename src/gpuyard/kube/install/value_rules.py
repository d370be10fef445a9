"""What values of an installation must be: as JSON schemas, which the chart has too, and in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.object_names import LABEL_KEY, LABEL_NAME, LABEL_VALUE

PORT = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
"""A number from 1 to 65535, as text."""
WORD = r'^[^\s"\\]+$'
TEXT = {"type": "string", "minLength": 1}
MOST_REPLICAS = 100
LONGEST_ROUND_S = 1e9
GREATEST_SPEED = 1e9


@dataclass(frozen=True)
class ValueRule:
    """What one value must be."""

    schema: JsonObject
    said: str
    """The rule in words, behind the value."""

    def check(self, name: str, value: Any, file: object) -> None:
        """InputError for the first part of a value that breaks the rule."""
        for field, wrong in _broken(name, value, self.schema):
            raise InputError(self.said, file=file, field=field, value=wrong)


def _number(kind: str, said: str, **limits: float) -> ValueRule:
    return ValueRule({"type": kind, **limits}, f"must be {said}")


def _text(pattern: str, said: str) -> ValueRule:
    return ValueRule({"type": "string", "pattern": pattern}, f"must be {said}")


def _named(said: str, *needed: str, **properties: JsonObject) -> ValueRule:
    """A list of mappings that have these fields."""
    fields = dict.fromkeys(needed, TEXT) | properties
    item = {"type": "object", "required": list(needed), "properties": fields, "minProperties": 1}
    return ValueRule({"type": "array", "items": item}, f"must be {said}")


_PORT = _number("integer", "a port from 1 to 65535", minimum=1, maximum=65535)
_IMAGE = _text(WORD, "the name of an image, without blanks")
_COMMAND = ValueRule({"type": "array", "items": TEXT, "minItems": 1}, "must be a list of one or more texts")
_SEGMENT = r'([^./"\\\s][^/"\\\s]*|\.[^./"\\\s][^/"\\\s]*|\.\.[^/"\\\s]+)'
_FOLDER = _text(f"^(/{_SEGMENT})+$", "the whole path of a folder of nodes, below / and without '.' and '..'")
_QUOTA = r'[^=,"\\\s]+=[0-9]{1,9}(\.[0-9]{1,3})?'
_YES_OR_NO = ValueRule({"type": "boolean"}, "must be true or false")

RULES: Mapping[str, ValueRule] = {
    "namespace": _text(LABEL_NAME, "the name of a namespace: small letters, digits and '-'"),
    "image": _IMAGE,
    "imagePullPolicy": ValueRule(
        {"type": "string", "enum": ["Always", "IfNotPresent", "Never"]}, "must be Always, IfNotPresent or Never"
    ),
    "command": _COMMAND,
    "schedulerImage": _IMAGE,
    "schedulerCommand": _COMMAND,
    "schedulerPort": _PORT,
    "gpus": ValueRule({"type": "string", "enum": ["emulated", "nvml"]}, "must be emulated or nvml"),
    "emulated": _text(r'^[^"\\\n]+$', "GPUs as in 4xV100"),
    "speed": _number("number", "a finite number above 0", exclusiveMinimum=0, maximum=GREATEST_SPEED),
    "runtimeClass": _text(r"^([a-z0-9][-a-z0-9.]*)?$", "empty, or the name of a runtime class"),
    "nodeSelector": ValueRule(
        {
            "type": "object",
            "propertyNames": {"pattern": LABEL_KEY},
            "additionalProperties": {"type": "string", "pattern": LABEL_VALUE},
        },
        "must be a label and its value, both text: put numbers, true and false in quotes",
    ),
    "multiplex": _text(WORD, "the name of a policy, as in interference"),
    "jobs": _text(r'^[^\s"\\]*$', "empty, or the name of a policy, as in las+tune"),
    "jobsRound": _number("number", "seconds, more than 0", exclusiveMinimum=0, maximum=LONGEST_ROUND_S),
    "jobsStarvation": _text(r"^(none|[0-9]{1,9}(\.[0-9]{1,6})?(s|m|min|h|d)?)?$", "empty, none, or a time, as in 12h"),
    "jobsQuotas": _text(f"^({_QUOTA}(,{_QUOTA})*)?$", "empty, or TENANT=GPUS, as in research=16,teaching=4"),
    "replicas": _number("integer", f"a whole number from 1 to {MOST_REPLICAS}", minimum=1, maximum=MOST_REPLICAS),
    "hostNetwork": _YES_OR_NO,
    "extenderUrl": _text(r"^(https://[-A-Za-z0-9.\[\]:]*[A-Za-z0-9\]]/?)?$", "empty, or https://HOST:PORT"),
    "listen": _text(rf'^[^\s"\\]+:{PORT}$', "HOST:PORT, as in 0.0.0.0:12345"),
    "networkPolicy": _YES_OR_NO,
    "metricsFrom": _named("a list of peers, as a NetworkPolicy has them"),
    "makeCertificates": _YES_OR_NO,
    "libraries": _FOLDER,
    "sharedMemory": _FOLDER,
    "tasks": _FOLDER,
    "env": _named(
        "a list of variables, each with a name and a value that is text",
        "name",
        name={"type": "string", "pattern": r"^[-._a-zA-Z][-._a-zA-Z0-9]*$"},
        value={"type": "string"},
        valueFrom={"type": "object"},
    ),
    "volumes": _named("a list of volumes, each with a name", "name", name={"type": "string", "pattern": LABEL_NAME}),
    "volumeMounts": _named("a list of mounts, each with a name and a mountPath", "name", "mountPath"),
}
"""By their names."""

_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}


def _broken(field: str, value: Any, schema: JsonObject) -> Iterator[tuple[str, Any]]:
    """The parts of a value that break a schema, of the kinds that are used above."""
    if type(value) not in _KINDS[schema["type"]]:
        yield field, value
    elif isinstance(value, str):
        if not _text_fits(value, schema):
            yield field, value
    elif isinstance(value, int | float):
        if not _number_fits(value, schema):
            yield field, value
    elif isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield field, value
        for at, each in enumerate(value):
            yield from _broken(f"{field}[{at}]", each, schema["items"])
    else:
        yield from _broken_in_mapping(field, value, schema)


def _text_fits(value: str, schema: JsonObject) -> bool:
    sizes = len(value) >= schema.get("minLength", 0)
    return bool(_fits(value, schema.get("pattern", "")) and sizes and value in schema.get("enum", (value,)))


def _fits(value: str, pattern: str) -> bool:
    """Python's `$` also matches before a last line break, that of JSON schemas does not."""
    return re.search(pattern.replace("$", r"\Z"), value) is not None


def _number_fits(value: float, schema: JsonObject) -> bool:
    above = value > schema.get("exclusiveMinimum", float("-inf")) and value >= schema.get("minimum", value)
    return bool(above and value <= schema.get("maximum", value))


def _broken_in_mapping(field: str, value: JsonObject, schema: JsonObject) -> Iterator[tuple[str, Any]]:
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing or len(value) < schema.get("minProperties", 0):
        yield field, value
    names = schema.get("propertyNames", {}).get("pattern", "")
    further = schema.get("additionalProperties")
    for name, each in value.items():
        if not _fits(name, names):
            yield field, name
        known = schema.get("properties", {}).get(name, further)
        if known is not None:
            yield from _broken(f"{field}.{name}", each, known)
