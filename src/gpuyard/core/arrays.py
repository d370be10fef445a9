"""Names for the arrays that state lives in."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Small = NDArray[np.int32]
Bytes = NDArray[np.int8]

A = TypeVar("A", bound=NDArray[Any])


def read_only(array: A) -> A:
    """The same array, which from now on nobody writes to: values that are shared stay as they are."""
    array.flags.writeable = False
    return array
