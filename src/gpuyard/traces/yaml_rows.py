"""YAML files that hold a list of records under a heading, read so that each record knows its line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import yaml

from gpuyard.core.errors import InputError
from gpuyard.profiles.reading import check_depth
from gpuyard.traces.source import Source

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


@dataclass(frozen=True)
class Record:
    """One entry of the list, and the line it begins on."""

    row: int
    values: dict[str, Any]


def read_records(source: Source, version: str, name: str) -> list[Record]:
    """Return the entries under `name` of a file that begins 'gpuyard: VERSION'."""
    return read_lists(source, version, (name,))[name]


def read_lists(source: Source, version: str, names: tuple[str, ...]) -> dict[str, list[Record]]:
    """Return the entries under each of these names; one of them must be there, and have some."""
    return read_parts(source, version, names, ())[0]


def read_parts(
    source: Source, version: str, names: tuple[str, ...], plain: tuple[str, ...]
) -> tuple[dict[str, list[Record]], dict[str, Any]]:
    """Return the same, and the values of the plain fields that stand beside the lists."""
    root, construct = _compose(source)
    if not isinstance(root, yaml.MappingNode):
        raise InputError(f"must begin with 'gpuyard: {version}'", file=source.name, row=1)
    _check_once(source, root)
    parts = {str(key.value): (key, node) for key, node in root.value}
    heading = parts["gpuyard"][1].value if "gpuyard" in parts else None
    if heading != version:
        raise InputError(
            f"is not a version this gpuyard reads; it reads {version}", file=source.name, row=1, field="gpuyard",
            value=heading,
        )  # fmt: skip
    for key, (node, _) in parts.items():
        if key not in ("gpuyard", *names, *plain):
            known = " and ".join(f"'{each}'" for each in ("gpuyard", *plain, *names))
            raise InputError(
                f"is not a part of this file, which has {known}", file=source.name,
                row=node.start_mark.line + 1, value=key,
            )  # fmt: skip
    found: dict[str, list[Record]] = {name: [] for name in names}
    for name in [each for each in names if each in parts] or names[:1]:
        entries = parts[name][1] if name in parts else None
        if not isinstance(entries, yaml.SequenceNode) or not entries.value:
            raise InputError("must be a list with at least one entry", file=source.name, field=name)
        found[name] = [_record(source, node, construct) for node in entries.value]
    return found, {name: construct(parts[name][1]) for name in plain if name in parts}


def _compose(source: Source) -> tuple[Any, Any]:
    text = source.text()
    try:
        check_depth(text, source.name)
        loader = _Loader(text)
        return loader.get_single_node(), loader.construct_document
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        row = mark.line + 1 if mark else None
        raise InputError(f"is not valid YAML: {error.problem}", file=source.name, row=row) from None
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise InputError(f"is not valid YAML: {problem}", file=source.name) from None


def _check_names(source: Source, top: Any) -> None:
    """Nothing may stand twice, at any depth: the later one would take the place of the other without a word."""
    nodes, looked_at = [top], set[int]()  # a part may be meant in several places, and even in itself
    while nodes:
        node = nodes.pop()
        if id(node) in looked_at or not isinstance(node, yaml.CollectionNode):
            continue
        looked_at.add(id(node))
        if isinstance(node, yaml.MappingNode):
            _check_once(source, node)
            nodes += [value for _, value in node.value]
        else:
            nodes += node.value


def _check_once(source: Source, node: Any) -> None:
    names = Counter(str(key.value) for key, _ in node.value)
    twice, count = names.most_common(1)[0] if names else ("", 0)
    if count > 1:
        row = node.start_mark.line + 1
        raise InputError("stands twice in one entry", file=source.name, row=row, value=twice)


def _record(source: Source, node: Any, construct: Any) -> Record:
    row = node.start_mark.line + 1
    if not isinstance(node, yaml.MappingNode):
        raise InputError("must be a mapping of fields to values", file=source.name, row=row,
                         value=node.value if isinstance(node, yaml.ScalarNode) else None)  # fmt: skip
    _check_names(source, node)
    for key, value in node.value:
        if value.tag in _NUMBERS and ":" in value.value:
            rule = "is a number to the base of 60 in YAML: write it without a colon"
            raise InputError(rule, file=source.name, row=row, field=str(key.value), value=value.value)
    try:
        return Record(row, construct(node))
    except (yaml.YAMLError, ValueError) as error:
        problem = getattr(error, "problem", error)
        raise InputError(f"is not valid YAML: {problem}", file=source.name, row=row) from None
