"""What is asked of single values from outside, before anything is done with them."""

from __future__ import annotations

from math import inf
from os import PathLike
from typing import Any

import numpy as np

from gpuyard.core.errors import InputError
from gpuyard.core.units import LARGEST


def check_number(
    value: Any, field: str, *, least: float = -LARGEST, most: float = LARGEST, whole: bool = False
) -> None:
    """Raise InputError unless this is a finite, or a whole, number within its limits."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not is_number or not -inf < value < inf or value < least or (whole and value != int(value)):
        bound = f", {least:g} or more" if least > -LARGEST else ""
        raise InputError(f"must be a {'whole' if whole else 'finite'} number{bound}", field=field, value=value)
    if value > most:
        raise InputError(f"is beyond {most:g}", field=field, value=value)


def check_kind(value: Any, field: str, said: str, *kinds: type) -> None:
    """Raise InputError unless a value is of one of these kinds; `said` is what the user reads: 'text or a path'."""
    if not isinstance(value, kinds):
        raise InputError(f"must be {said}", field=field, value=type(value).__name__ if value is None else value)


def check_path(value: Any, field: str) -> None:
    """Raise InputError unless this can be the name of a file or folder."""
    check_kind(value, field, "the name of a file: text or a path", str, PathLike)
