"""Equal values give equal bytes: JSON with sorted keys, Parquet with nothing left to chance."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gpuyard.core.errors import InputError

ROW_GROUP = 1 << 18


def json_bytes(value: Any) -> bytes:
    """Encode with sorted keys; floats in their shortest exact form, null for what JSON cannot say."""
    text = json.dumps(_plain(value), sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; InputError when the file is damaged."""
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, OSError) as error:
        raise InputError(f"is damaged: {error}", file=path, hint="Make the run again") from error
    if not isinstance(value, dict):
        raise InputError("is damaged: it is not a JSON object", file=path, hint="Make the run again")
    return value


def parquet_bytes(frame: pl.DataFrame) -> bytes:
    """Encode a table; chunks are joined first, since their borders would show in the bytes."""
    buffer = io.BytesIO()
    frame.rechunk().write_parquet(buffer, compression="zstd", compression_level=3, row_group_size=ROW_GROUP)
    return buffer.getvalue()


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case np.ndarray():
            return _plain(value.tolist())
        case np.generic():
            return _plain(value.item())
        case float() if not math.isfinite(value):
            return None
        case Path():
            return value.as_posix()
        case _:
            return value
