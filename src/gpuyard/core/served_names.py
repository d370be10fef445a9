"""Names of what is served: they become paths, and must not be those of something else."""

from __future__ import annotations

from collections.abc import Collection

from gpuyard.core.errors import InputError

ALL = "stats"
"""Behind `models`, where a name would be: the statistics of all of them."""
WORDS = ("infer", "ready", "config", "stats", "versions")
"""Behind a model's name: what is asked of it."""


def check_served_names(names: Collection[str]) -> None:
    """Raise InputError for the first name that no request could reach, or that would hide the path of another."""
    known = set(names)
    for name in names:
        parts = name.split("/")
        if any(part in ("", ".", "..") for part in parts):
            rule = "cannot be served: between slashes there must be something, and not '.' or '..', in a path"
            raise InputError(rule, field="name", value=name, hint="Give it another name")
        owners = ("/".join(parts[:end]) for end in range(1, len(parts)) if parts[end] in WORDS)
        if name == ALL or any(owner in known for owner in owners):
            rule = "cannot be served: its path is that of something else in the inference protocol"
            raise InputError(rule, field="name", value=name, hint="Give it another name")
