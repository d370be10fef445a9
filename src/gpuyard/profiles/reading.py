"""Reads the text of a YAML file strictly."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from gpuyard.core.arguments import check_regular
from gpuyard.core.errors import InputError

_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C it is ten times as fast
DEEPEST = 100
"""Parts of a file in one another; far more would overrun the stack of the parser, and end the process."""


class _Loader(_SafeLoader):  # type: ignore[misc]
    """Safe YAML in which a key that stands twice is an error, not an overwrite."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping after a look at its keys."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # no key of a mapping in Python: its constructor says so
            if key.value in seen:
                raise InputError("stands twice", row=key.start_mark.line + 1, value=key.value)
            seen.add(key.value)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def load_yaml(text: str, file: str) -> Any:
    """Return what a YAML text says; raises InputError with the file and, where it can be told, the row."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506  a subclass of the safe loader
    except InputError as error:
        raise InputError(error.rule, file=file, row=error.row, value=error.value) from None
    except (yaml.YAMLError, ValueError) as error:  # a day that no month has is a ValueError
        raise InputError(f"is not YAML: {error}", file=file) from error


def read_yaml(path: Path, what: str) -> Any:
    """Return what a user's file says; raises InputError with the file, and the row where it can be told."""
    text = read_text(path, what)
    try:
        check_depth(text, path)
    except yaml.YAMLError as error:
        raise InputError(f"is not YAML: {error}", file=path) from error
    return load_yaml(text, str(path))


def check_depth(text: str, file: object) -> None:
    """Raise InputError for a YAML text with more parts in one another than readers could follow."""
    depth = 0
    for event in yaml.parse(text, Loader=_SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise InputError("is nested too deeply", file=file, row=event.start_mark.line + 1)


def read_text(path: Path, what: str) -> str:
    """Return a file's text; raises InputError when it cannot be read as what it should be."""
    check_regular(path)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read as a {what}: {error}", file=path) from error


@lru_cache(maxsize=128)
def bundled_yaml(*path: str) -> Any:
    """Return what a file of the bundled zoo says; not to be changed, as it is read once."""
    return load_yaml(files("gpuyard.profiles").joinpath("zoo", *path).read_text(encoding="utf-8"), path[-1])
