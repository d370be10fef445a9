"""What is asked of single values from outside, before anything is done with them."""

from __future__ import annotations

import stat
from math import inf
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from gpuyard.core.errors import InputError
from gpuyard.core.units import LARGEST

MOST_SERVED = 1e9
"""Requests a second, or milliseconds of an SLO: 11 days."""
LARGEST_WRITTEN = 1e12
"""Numbers above it are not written out for the user."""


def check_number(
    value: Any, field: str, *, least: float = -LARGEST, most: float = LARGEST, whole: bool = False
) -> None:
    """Raise InputError unless this is a finite, or a whole, number within its limits."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not is_number or not -inf < value < inf or value < least or (whole and value != int(value)):
        bound = f", {least:g} or more" if least > -LARGEST else ""
        rule = f"must be a {'whole' if whole else 'finite'} number{bound}"
        raise InputError(rule, field=field, value=value, hint=number_hint(value))
    if value > most:
        raise InputError(f"is beyond {most:g}", field=field, value=value)


def number_hint(value: Any) -> str | None:
    """What to write instead of a text that people read as a number: for YAML, 1e9 is a text."""
    try:
        number = float(value) if isinstance(value, str) else inf
    except ValueError:
        return None
    return f"It is text: write {_plain(number)} without quotes" if abs(number) < LARGEST_WRITTEN else None


def _plain(number: float) -> str:
    """Without an exponent, which not every reader takes for one."""
    return str(np.format_float_positional(number, trim="-"))


def check_kind(value: Any, field: str, said: str, *kinds: type) -> None:
    """Raise InputError unless a value is of one of these kinds; `said` is what the user reads: 'text or a path'."""
    if not isinstance(value, kinds):
        raise InputError(f"must be {said}", field=field, value=type(value).__name__ if value is None else value)


def check_path(value: Any, field: str) -> None:
    """Raise InputError unless this can be the name of a file or folder."""
    check_kind(value, field, "the name of a file: text or a path", str, PathLike)


def check_regular(path: str | PathLike[str]) -> None:
    """Raise InputError for a device, a pipe or a socket: it may never end, or never begin."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return  # whoever reads it says why it cannot be read
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise InputError("is not a regular file", file=path)


def check_served(value: Any, field: str, said: str = "") -> None:
    """Raise InputError unless this can be a rate or a time of what is served; `said` ends the rule."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < inf:
        raise InputError(f"must be a finite number above 0{said}", field=field, value=value, hint=number_hint(value))
    if value > MOST_SERVED:
        raise InputError(f"is beyond {MOST_SERVED:g}{said}", field=field, value=value)


def check_name(value: str, field: str, said: str = "") -> None:
    """Raise InputError unless a text can stand in one line that people read."""
    if not value.strip():
        raise InputError(f"must not be blank{said}", field=field, value=value)
    if not value.isprintable():
        raise InputError(f"must be printable: no control characters{said}", field=field, value=value)
