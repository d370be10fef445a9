"""Compiled inner loops: one decorator, so that what is compiled, cached and how is decided once."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Small = NDArray[np.int32]
Bytes = NDArray[np.int8]


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first use and cache on disk; arithmetic stays strictly IEEE, so results repeat to the last bit."""
    return cast("Callable[P, R]", numba.njit(cache=True, nogil=True, error_model="numpy")(function))
