"""Compiled inner loops: one decorator, so that what is compiled, cached and how is decided once."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar, cast

import numba
import numpy as np
from numba.core import types
from numba.experimental import structref
from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")
T_co = TypeVar("T_co", covariant=True)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Small = NDArray[np.int32]
Bytes = NDArray[np.int8]


def _fingerprint(package: Path) -> str:
    """Changes whenever a file with kernels does."""
    known = hashlib.sha256(numba.__version__.encode())
    for layer in ("core", "policies", "simulation"):
        for file in sorted((package / layer).rglob("*.py")):
            source = file.read_bytes()
            if b"\n@kernel\n" in source or b"\n@inner\n" in source:
                known.update(source)
    return known.hexdigest()[:12]


def _cache_folder() -> str:
    """Where compiled code is kept, one folder for each state of the source; stale ones are removed.

    Numba looks only at the file of the function it compiles, and would go on using code inlined from another file.
    """
    package = Path(__file__).resolve().parents[1]
    for base in (package / "__pycache__", Path.home() / ".cache" / "gpuyard", Path(tempfile.gettempdir()) / "gpuyard"):
        folder = base / f"kernels-{_fingerprint(package)}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            for other in base.glob("kernels-*"):
                if other != folder:
                    shutil.rmtree(other, ignore_errors=True)
            return str(folder)
    return ""


_CACHE = _cache_folder()


def is_cold() -> bool:
    """Whether nothing has been compiled yet, so that the first run will take a minute longer."""
    return not any(Path(_CACHE).rglob("*.nbi"))


def _compile(function: Callable[P, R], **flags: Any) -> Callable[P, R]:
    """Compile on first use, cached on disk; arithmetic stays strictly IEEE, so results repeat to the last bit."""
    settings: Any = numba.config
    jit: Any = numba.njit
    theirs, settings.CACHE_DIR = settings.CACHE_DIR, _CACHE
    try:
        compiled = jit(cache=True, nogil=True, error_model="numpy", **flags)(function)
    finally:
        settings.CACHE_DIR = theirs
    return cast("Callable[P, R]", compiled)


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of numbers, arrays and tuples of arrays."""
    return _compile(function)


def inner(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a part of a kernel that makes no arrays of its own.

    It borrows its arguments instead of counting references to them: with sixty arrays that is most of the cost.
    """
    return _compile(function, _nrt=False)


class Boxed(Protocol[T_co]):
    """A tuple of arrays behind one pointer: handing it to a kernel costs the same however many arrays it has."""

    @property
    def value(self) -> T_co:
        """The tuple; to be read inside kernels."""


_structref: Any = structref
_types: Any = types


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
    return cast("Boxed[R]", _make_box(value))
