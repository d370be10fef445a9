"""JSON files of others, taken as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.profiles.json_files import parse_json
from gpuyard.traces.source import Source


def read_object(path: Path, what: str) -> dict[str, Any]:
    """Return the object that a file holds; InputError says that it must be `what`."""
    content = parse_json(Source.open(path).text(), path)
    if not isinstance(content, dict):
        raise InputError(f"must be {what}", file=path)
    return content
