"""Names of run folders."""

from __future__ import annotations

import re


def folder_name(policy: str, load: float | None = None, seed: int | None = None, label: str = "") -> str:
    """Name a run by what most often tells it from others: fifo+tune-load9-seed42."""
    parts = [policy]
    parts += [f"load{load:g}"] if load is not None else []
    parts += [f"seed{seed}"] if seed is not None else []
    parts += [label] if label else []
    return re.sub(r"[^\w+.-]+", "_", "-".join(parts)).lstrip(".") or "run"
