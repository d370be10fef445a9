"""Names of run folders, and what counts as one."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path

RUN_FILES = ("run.json", "jobs.parquet", "timeline.parquet", "summary.json")
"""Everything a complete run folder holds."""


def is_run(folder: Path) -> bool:
    """Tell whether this is a complete run folder."""
    return all((folder / name).is_file() for name in RUN_FILES)


def strangers(folder: Path) -> list[str]:
    """Name what is in a folder that no run would have put there."""
    return sorted(entry.name for entry in folder.iterdir() if entry.name not in RUN_FILES)


def default_folder(
    base: Path | str, policy: str, load: float | None = None, seed: int | None = None, label: str = ""
) -> Path:
    """Choose a readable folder that does not exist yet: base/fifo+tune-load9-seed42, then …-2, …-3."""
    parts = [policy]
    parts += [f"load{load:g}"] if load is not None else []
    parts += [f"seed{seed}"] if seed is not None else []
    parts += [label] if label else []
    name = re.sub(r"[^\w+.-]+", "_", "-".join(parts)).lstrip(".") or "run"
    candidates = (Path(base) / (name if number == 1 else f"{name}-{number}") for number in count(1))
    return next(path for path in candidates if not path.exists() and not path.is_symlink())
