"""YAML files that people write for Kubernetes: read strictly, and only as far as JSON could say it."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.profiles.reading import DEEPEST, read_yaml

MOST_PARTS = 100_000
"""By anchors a file of a line can mean more than any memory holds."""
_PLAIN = (str, int, float, bool, type(None), dict, list)


def read_plain_yaml(path: Path, what: str) -> Any:
    """What a file says; InputError names file, field, value and rule."""
    content = read_yaml(path, what)
    for number, (field, value, depth) in enumerate(_parts("", content, 0)):
        if number >= MOST_PARTS or depth > DEEPEST:
            raise InputError("means too much: by its anchors it repeats itself again and again", file=path)
        _check(field, value, path)
    return content


def _check(field: str, value: Any, path: Path) -> None:
    if type(value) not in _PLAIN:
        rule, hint = "is no text, number, true, false, list or mapping", "In quotes it is text"
        raise InputError(rule, file=path, field=field or None, value=value, hint=hint)
    if isinstance(value, float) and not isfinite(value):
        raise InputError("must be a finite number", file=path, field=field or None, value=value)
    if isinstance(value, dict):
        strange = next((key for key in value if not isinstance(key, str)), None)
        if strange is not None:
            rule, hint = "is the name of a field and no text", "Put it in quotes"
            raise InputError(rule, file=path, field=f"{field}.{strange}".lstrip("."), value=strange, hint=hint)


def _parts(field: str, value: Any, depth: int) -> Iterator[tuple[str, Any, int]]:
    """A value and all that is in it, by the names of fields; whoever reads on has borne the depth."""
    yield field, value, depth
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _parts(f"{field}.{key}".lstrip("."), each, depth + 1)
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _parts(f"{field}[{at}]", each, depth + 1)
