"""Messages of gRPC, built from a table of names, numbers and types, without generated code.

One line a message: `Name: field=number type, …`; `*` before a type is a list, `{}` after it a map from text to it,
`|` before it one of several of which only one is set. A name with a dot lies in the message before the dot.
"""

from __future__ import annotations

import re
from typing import Any

_TYPES: dict[str, int] = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "bool": 8, "string": 9, "bytes": 12, "uint32": 13,
}  # fmt: skip
_MESSAGE = 11
_OPTIONAL, _REPEATED = 1, 3


def build_messages(package: str, table: str) -> dict[str, Any]:
    """The classes of all messages by name; in a pool of their own, where no others of these names are."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name=f"gpuyard/{package}.proto", package=package, syntax="proto3")
    for line in table.strip().splitlines():
        name, _, fields = line.partition(":")
        outer, _, inner = name.partition(".")
        owner = (
            next(each for each in file.message_type if each.name == outer).nested_type if inner else file.message_type
        )
        _fill(package, owner.add(name=inner or outer), outer, fields)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = [each.name for each in file.message_type]
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in names}


def _fill(package: str, message: Any, outer: str, fields: str) -> None:
    full = f".{package}.{outer}" + ("" if message.name == outer else f".{message.name}")
    for name, number, sign, kind, mapped in re.findall(r"(\w+)=(\d+) ([*|]?)([\w.]+)(\{\})?", fields):
        if mapped:
            entry = _add_entry(package, message, name, kind)
            message.field.add(
                name=name, number=int(number), label=_REPEATED, type=_MESSAGE, type_name=f"{full}.{entry}"
            )
            continue
        field = message.field.add(name=name, number=int(number), label=_REPEATED if sign == "*" else _OPTIONAL)
        _set_type(package, field, kind, full)
        if sign == "|":
            if not message.oneof_decl:
                message.oneof_decl.add(name="parameter_choice")
            field.oneof_index = 0


def _add_entry(package: str, message: Any, name: str, kind: str) -> str:
    """A map is a list of a message of its own, with a key and a value."""
    entry = message.nested_type.add(name="".join(part.title() for part in name.split("_")) + "Entry")
    entry.options.map_entry = True
    _set_type(package, entry.field.add(name="key", number=1, label=_OPTIONAL), "string", "")
    _set_type(package, entry.field.add(name="value", number=2, label=_OPTIONAL), kind, "")
    return str(entry.name)


def _set_type(package: str, field: Any, kind: str, full: str) -> None:
    if kind in _TYPES:
        field.type = _TYPES[kind]
    else:
        field.type = _MESSAGE
        field.type_name = full + kind if kind.startswith(".") else f".{package}.{kind}"
