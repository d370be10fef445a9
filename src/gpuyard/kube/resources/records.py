"""Parts of objects as frozen values, and their schemas: both from one definition, a dataclass.

A field is written `Annotated[type, "what it means"]`, with rules of the schema behind that if there are any. Its type
is text, a number, a truth value, a tuple, a mapping, another such dataclass, or one of these or None. Its name is in
camelCase in objects. Reading bears everything: what is missing, or of another type, is as the dataclass has it unless
somebody says something.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from gpuyard.kube.json_objects import JsonObject

R = TypeVar("R")
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}
_NOTHING = object()


@dataclass(frozen=True)
class _RecordField:
    name: str
    key: str
    """Its name in objects."""
    type: Any
    meaning: str
    rules: Mapping[str, Any]


def read_record(kind: type[R], content: Any) -> R:
    """The value of a part of an object."""
    if not isinstance(content, Mapping):
        return kind()
    found = {each.name: _read(each.type, content.get(each.key)) for each in _fields(kind)}
    return kind(**{name: value for name, value in found.items() if value is not _NOTHING})


def write_record(value: Any) -> JsonObject:
    """The part of an object that a value is, without what is None."""
    return {key: written for key, written in change_to(value).items() if written is not None}


def change_to(value: Any) -> JsonObject:
    """A merge patch that makes that part of an object be this value: what is None is taken away."""
    return {each.key: _written(getattr(value, each.name), change=True) for each in _fields(type(value))}


def schema(kind: type[Any], required: tuple[str, ...] = ()) -> JsonObject:
    """The structural schema of such parts."""
    properties = {
        each.key: {**_schema(each.type), **each.rules} | ({"description": each.meaning} if each.meaning else {})
        for each in _fields(kind)
    }
    must = [each.key for each in _fields(kind) if each.name in required]
    described = {"type": "object", "description": str(kind.__doc__).split("\n")[0], "properties": properties}
    return described | ({"required": must} if must else {})


def _fields(kind: Any) -> tuple[_RecordField, ...]:
    return _fields_of(kind)


@cache
def _fields_of(kind: Any) -> tuple[_RecordField, ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_field(each.name, hints[each.name]) for each in fields(kind))


def _field(name: str, hint: Any) -> _RecordField:
    said = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    meaning = next((each for each in said if isinstance(each, str)), "")
    rules = next((each for each in said if isinstance(each, dict)), {})
    plain = get_args(hint)[0] if said else hint
    first, *rest = name.split("_")
    return _RecordField(name, first + "".join(map(str.capitalize, rest)), _without_none(plain), meaning, rules)


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = [each for each in get_args(hint) if each is not types.NoneType]
    return hint


def _read(hint: Any, content: Any) -> Any:
    """A value of this type; _NOTHING where there is none."""
    if get_origin(hint) is tuple:
        return tuple(_each(get_args(hint)[0], content)) if isinstance(content, list) else _NOTHING
    if get_origin(hint) is dict:
        return dict(content) if isinstance(content, Mapping) else _NOTHING
    if hint not in _TYPES:
        return read_record(hint, content) if isinstance(content, Mapping) else _NOTHING
    if hint is float and type(content) is int:
        return float(content)
    return content if type(content) is hint and content != "" else _NOTHING


def _each(hint: Any, content: list[Any]) -> Iterator[Any]:
    yield from (value for value in (_read(hint, each) for each in content) if value is not _NOTHING)


def _written(value: Any, *, change: bool) -> Any:
    """What an API server is told; an empty text is none, which some of them take for a null and refuse."""
    if isinstance(value, tuple):
        return [written for each in value if (written := _written(each, change=False)) is not None]
    if isinstance(value, str | int | float | dict) or value is None:
        return None if value == "" else value
    return change_to(value) if change else write_record(value)


def _schema(hint: Any) -> JsonObject:
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _schema(get_args(hint)[0])}
    if get_origin(hint) is dict:
        inner = get_args(hint)[1]
        free = {"x-kubernetes-preserve-unknown-fields": True}
        return {"type": "object"} | (free if inner is Any else {"additionalProperties": _schema(inner)})
    if hint not in _TYPES:
        return schema(hint)
    return {"type": _TYPES[hint]} | ({"format": "int64"} if hint is int else {})
