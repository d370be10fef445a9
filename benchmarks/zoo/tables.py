"""The tables: measured step times by GPU, model and batch size, and what a step of each model does."""

from __future__ import annotations

from pathlib import Path

import polars as pl

SOURCE = "GPEmu (PVLDB 18), mengwanguc/gpemu"


def read_table(folder: Path, name: str) -> pl.DataFrame:
    """Return a table, with each GPU under the key that gpuyard knows it by."""
    from gpuyard.profiles import find_gpu

    table = pl.read_csv(folder / name, comment_prefix="#", infer_schema_length=None)
    if "gpu" in table.columns:
        keys = {gpu: find_gpu(gpu).key for gpu in table["gpu"].unique()}
        table = table.with_columns(pl.col("gpu").replace_strict(keys))
    return table
