"""Tables over jobs that grow when more jobs become known."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T", bound=tuple[Any, ...])


def grown(old: T, fresh: T, before: int) -> T:
    """Return the fresh table with the first `before` jobs as they were; what is not one entry a job stays as it was."""
    arrays = []
    for was, new in zip(old, fresh, strict=True):
        if len(was) == before and len(new) != before:
            new[:before] = was
            arrays.append(new)
        else:
            arrays.append(was)
    return type(old)(*arrays)
