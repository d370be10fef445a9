"""What is in a run folder, and what counts as one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpuyard.results.schema import TABLES

FORMAT = 2
"""Raised when folders of before can no longer be read."""

INFO, SUMMARY = "run.json", "summary.json"

RUN_FILES = (INFO, *(table.file for table in TABLES.values()), SUMMARY)
"""Everything that a run folder can hold; which tables it has, run.json says."""


def is_run(folder: Path) -> bool:
    """Tell whether this is a complete run folder of the present format."""
    try:
        info = json.loads((folder / INFO).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(info, dict) and info.get("format") == FORMAT and not missing_files(folder, info)


def missing_files(folder: Path, info: dict[str, Any]) -> list[str]:
    """Name the files that a folder should have, going by its run.json, and has not."""
    tables = info.get("tables")
    names = [INFO, *(f"{table}.parquet" for table in (tables if isinstance(tables, list) else TABLES)), SUMMARY]
    return [name for name in names if not (folder / name).is_file()]


def foreign_files(folder: Path) -> list[str]:
    """Name what is in a folder that no run would have put there."""
    return sorted(entry.name for entry in folder.iterdir() if entry.name not in RUN_FILES)
