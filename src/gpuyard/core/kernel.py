"""Compiled inner loops: one decorator, so that what is compiled, cached and how is decided once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, cast

import numba
import numpy as np
from numba.core import types
from numba.experimental import structref
from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", covariant=True)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Small = NDArray[np.int32]
Bytes = NDArray[np.int8]


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first use and cache on disk; arithmetic stays strictly IEEE, so results repeat to the last bit.

    Inlining is forced because passing tuples of arrays between compiled functions costs more than most of them do.
    """
    compiled = numba.njit(cache=True, nogil=True, error_model="numpy", forceinline=True)(function)
    return cast("Callable[P, R]", compiled)


def inner(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a part of a kernel that makes no arrays of its own.

    It borrows its arguments instead of counting references to them: with tuples of sixty arrays that is most of the cost.
    """
    compiled = numba.njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)(function)
    return cast("Callable[P, R]", compiled)


class Boxed(Protocol[T]):
    """A tuple of arrays behind one pointer: handing it to a kernel costs the same however many arrays it has."""

    @property
    def value(self) -> T:
        """The tuple; to be read inside kernels."""


@structref.register
class _BoxType(types.StructRef):  # type: ignore[misc]
    def preprocess_fields(self, fields: Any) -> Any:
        return tuple((name, types.unliteral(kind)) for name, kind in fields)


class _Box(structref.StructRefProxy):  # type: ignore[misc]
    pass


structref.define_proxy(_Box, _BoxType, ["value"])


@kernel
def _make_box(value: Any) -> Any:
    return _Box(value)


def box(value: R) -> Boxed[R]:
    """Put a tuple of arrays behind one pointer; the arrays stay shared."""
    return cast("Boxed[R]", _make_box(value))
