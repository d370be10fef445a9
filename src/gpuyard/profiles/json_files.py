"""Reads JSON files of gpuyard's own strictly: their version, and no name twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuyard.core.arguments import check_regular
from gpuyard.core.errors import InputError


def read_json(path: Path, version: str, what: str, *older: str) -> dict[str, Any]:
    """Return what a file of this version says, or of an older one; InputError names the file and what is wrong."""
    check_regular(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=path) from None
    return of_version(text, path, what, version, *older)


def of_version(text: str, file: object, what: str, version: str, *older: str) -> dict[str, Any]:
    """The same of a text that is there already; `file` says in words where it is from."""
    content = parse_json(text, file, unique_names)
    if not isinstance(content, dict) or content.get("gpuyard") not in (version, *older):
        found = content.get("gpuyard") if isinstance(content, dict) else None
        raise InputError(f"is not a {what} of gpuyard: its field gpuyard must be {version!r}", file=file, value=found)
    return content


def parse_json(text: str, file: object, hook: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Return what a text of JSON says; `hook` makes a value of the pairs of an object."""
    try:
        return json.loads(text, object_pairs_hook=hook)
    except InputError as error:
        raise error.located(file) from None
    except RecursionError:
        raise InputError("cannot be read: it is nested too deeply", file=file) from None
    except ValueError as error:
        raise InputError(f"is not JSON: {error}", file=file) from None


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, whose names must differ: of two equal ones only the last would count."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise InputError("stands twice in one object", value=next(name for name in names if names.count(name) > 1))
    for name in found:
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise InputError("is not text: it has half of a character", value=name)
    return found
