"""Fingerprints of columns: equal contents give equal digests, however they are stored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LETTERS = 16


@dataclass(frozen=True)
class CodedText:
    """A column of text as codes into a table of names."""

    codes: NDArray[Any]
    names: Sequence[str]


def digest_columns(columns: Mapping[str, NDArray[Any] | CodedText]) -> str:
    """Return a fingerprint of named columns; text counts by what it says, not by its codes."""
    known = hashlib.sha256()
    for name, column in columns.items():
        content = _text_bytes(column) if isinstance(column, CodedText) else _bytes(column)
        known.update(f"{name}:{len(content)}:".encode())
        known.update(content)
    return known.hexdigest()[:LETTERS]


def _text_bytes(column: CodedText) -> bytes:
    used = sorted({column.names[code] for code in np.unique(column.codes)})
    places = {name: place for place, name in enumerate(used)}
    place_of_code = np.array([places.get(name, -1) for name in column.names], dtype=np.int64)
    return json.dumps(used).encode() + bytes(place_of_code[column.codes].tobytes())


def _bytes(values: NDArray[Any]) -> bytes:
    if values.dtype.kind == "f":
        return (values.astype(np.float64) + 0.0).tobytes()  # -0.0 is 0.0
    if values.dtype.kind in "iub":
        return values.astype(np.int64).tobytes()
    return json.dumps(values.tolist()).encode()
