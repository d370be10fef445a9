"""Compiled inner loops: one decorator, so that what is compiled, cached and how is decided once.

With NUMBA_DISABLE_JIT=1 nothing is compiled: kernels run as the Python functions they are, to the same results.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast

import numba
import numpy as np
from numba import extending
from numba.core import event, types
from numba.experimental import structref

from gpuyard.core.arrays import Bytes, Floats, Ints, Small
from gpuyard.core.compilable import MARKS
from gpuyard.core.compile_notice import NOT_KEPT, CompileNotice
from gpuyard.core.kernel_cache import CodeOnDisk, open_cache

__all__ = ["CACHE", "INTERPRETED", "NOTICE", "Boxed", "Bytes", "Floats", "Ints", "Small", "box", "inner", "kernel"]

P = ParamSpec("P")
R = TypeVar("R")
T_co = TypeVar("T_co", covariant=True)

_event: Any = event
_numba: Any = numba
_structref: Any = structref
_types: Any = types

INTERPRETED: bool = bool(_numba.config.DISABLE_JIT)
"""Whether numba was told, by NUMBA_DISABLE_JIT=1, to compile nothing."""

_STRICT = {"error_model": "numpy"}
"""Arithmetic is strictly IEEE, as numpy's, so results repeat to the last bit."""

_BORROWING = {"_nrt": False, "forceinline": True}
"""Arguments are borrowed instead of counting references to them: with sixty arrays that is most of the cost."""


CACHE = None if INTERPRETED else open_cache(Path(__file__).resolve().parents[1], os.environ)
"""Compiled code on disk."""

NOTICE = CompileNotice("" if CACHE is None or CACHE.lasting else NOT_KEPT)
"""Tells the user when kernels are being compiled."""

_event.register("numba:compile", NOTICE)


def _compile(function: Callable[P, R], **flags: Any) -> Callable[P, R]:
    """Compile on first use, cached on disk."""
    if CACHE is None:
        return _without_warnings(function)
    NOTICE.watch(function)
    compiled = _numba.njit(nogil=True, **_STRICT, **flags)(function)
    with _numba_set(CACHE_DIR=str(CACHE.folder), CACHE_LOCATOR_CLASSES=""):
        compiled._cache = CodeOnDisk(function)
    return cast("Callable[P, R]", compiled)


@contextmanager
def _numba_set(**settings: str) -> Iterator[None]:
    """With numba set so; the rest of the program has its own settings."""
    theirs = {name: getattr(_numba.config, name, "") for name in settings}
    vars(_numba.config).update(settings)
    try:
        yield
    finally:
        vars(_numba.config).update(theirs)


def _without_warnings(function: Callable[P, R]) -> Callable[P, R]:
    """As compiled code does it: what is divided by zero is infinite or no number, and nobody is told."""

    @wraps(function)
    def interpreted(*args: P.args, **kwargs: P.kwargs) -> R:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return interpreted


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of numbers, arrays and tuples of arrays."""
    return _compile(function)


def inner(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a part of a kernel that makes no arrays of its own: it borrows its arguments."""
    return _compile(function, **_BORROWING)


if not INTERPRETED:
    MARKS.listen(extending.register_jitable(**_STRICT, **_BORROWING))


class Boxed(Protocol[T_co]):
    """A tuple of arrays behind one pointer: handing it to a kernel costs the same however many arrays it has."""

    @property
    def value(self) -> T_co:
        """The tuple; to be read inside kernels."""


@dataclass(frozen=True, slots=True)
class _Held(Generic[R]):
    """What stands for a boxed tuple where nothing is compiled; numba's own structures cannot be made there."""

    value: R


@_structref.register
class _BoxType(_types.StructRef):  # type: ignore[misc]
    def preprocess_fields(self, fields: Any) -> Any:
        return tuple((name, _types.unliteral(kind)) for name, kind in fields)


class _Box(_structref.StructRefProxy):  # type: ignore[misc]
    pass


_structref.define_proxy(_Box, _BoxType, ["value"])


@kernel
def _make_box(value: Any) -> Any:
    return _Box(value)


def box(value: R) -> Boxed[R]:
    """Put a tuple of arrays behind one pointer; the arrays stay shared."""
    return _Held(value) if INTERPRETED else cast("Boxed[R]", _make_box(value))
