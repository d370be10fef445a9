"""Reads JSON files of gpuyard's own strictly: their version, and no name twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpuyard.core.errors import InputError


def read_json(path: Path, version: str, what: str) -> dict[str, Any]:
    """Return what a file of this version says; InputError names the file and what is wrong with it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_unique)
    except InputError as error:
        raise error.located(path) from None
    except RecursionError:
        raise InputError(f"is not a {what} of gpuyard: it is nested too deeply", file=path) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=path) from None
    except ValueError as error:
        raise InputError(f"is not JSON: {error}", file=path) from None
    if not isinstance(content, dict) or content.get("gpuyard") != version:
        found = content.get("gpuyard") if isinstance(content, dict) else None
        raise InputError(f"is not a {what} of gpuyard: its field gpuyard must be {version!r}", file=path, value=found)
    return content


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, whose names must differ: of two equal ones only the last would count."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise InputError("stands twice in one object", value=next(name for name in names if names.count(name) > 1))
    for name in found:
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise InputError("is not text: it has half of a character", value=name)
    return found
