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


class _Loader(_SafeLoader):  # type: ignore[misc]
    """Safe YAML in which a key that stands twice is an error, not an overwrite."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping after a look at its keys."""
        seen: set[str] = set()
        for key, _ in node.value:
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
    except yaml.YAMLError as error:
        raise InputError(f"is not YAML: {error}", file=file) from error


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
