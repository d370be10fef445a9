"""gpulet's scheduler files: how its planner is set up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuyard.core.errors import InputError, nearest
from gpuyard.traces.json_objects import read_object

DEAD = ("Incremental", "SLO Ratio", "No Check", "Residue", "Force Part", "Reserved_ratio")
"""Keys that gpulet reads and never uses."""
KEYS = ("GPUs", "Max Model", "Part", "Latency Ratio", "Interference", "Self Tuning", "Avail_Parts")


@dataclass(frozen=True)
class SchedulerSettings:
    """What a scheduler file sets; None: it says nothing of it."""

    gpus: str | None
    policy: str
    most_models: int | None
    buffer: float | None
    interference: bool | None
    parts: tuple[int, ...] | None
    """Sizes of slices in percent; gpulet's offline planner passes them over."""
    unused: tuple[str, ...]
    """Keys without any effect."""


def read_scheduler(path: Path) -> SchedulerSettings:
    """Read a scheduler file as it is."""
    content = read_object(path, "an object of keys and values")
    for name in content:
        if name not in (*KEYS, *DEAD):
            hint = nearest(name, [*KEYS, *DEAD])
            raise InputError("is not a key of a scheduler file", file=path, value=name, hint=hint)
    tuning = "Self Tuning" in content
    policy = "greedy" if tuning and _flag(path, content, "Self Tuning") else "elastic"
    if _flag(path, content, "Part") is False:
        policy = "squishy"
    return SchedulerSettings(
        gpus=_gpus(path, content.get("GPUs")),
        policy=policy,
        most_models=_whole(path, content, "Max Model", 1),
        buffer=_ratio(path, content.get("Latency Ratio")),
        interference=False if tuning else _flag(path, content, "Interference"),
        parts=_parts(path, content.get("Avail_Parts")),
        unused=tuple(name for name in content if name in DEAD),
    )


def _gpus(path: Path, groups: Any) -> str | None:
    """As in --gpus; types stand in the order of the alphabet, whatever that in the file."""
    if groups is None:
        return None
    if not isinstance(groups, list) or not all(isinstance(each, dict) and {"Type", "Num"} <= set(each)
                                               for each in groups) or not groups:  # fmt: skip
        raise InputError("must be a list of {Type, Num}", file=path, field="GPUs", value=groups)
    counts = {str(each["Type"]): _whole(path, each, "Num", 0) for each in groups}
    return "+".join(f"{counts[name]}x{name}" for name in sorted(counts) if counts[name])


def _whole(path: Path, content: dict[str, Any], name: str, least: int) -> int | None:
    value = content.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"must be a whole number, {least} or more", file=path, field=name, value=value)
    return value


def _flag(path: Path, content: dict[str, Any], name: str) -> bool | None:
    value = content.get(name)
    if value is None:
        return None
    if value not in (0, 1):
        raise InputError("must be 0 or 1", file=path, field=name, value=value)
    return bool(value)


def _ratio(path: Path, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value < float("inf"):
        raise InputError("must be a number, 1 or more", file=path, field="Latency Ratio", value=value)
    return float(value)


def _parts(path: Path, value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    whole = isinstance(value, list) and all(isinstance(each, int) and 0 < each <= 100 for each in value)
    if not whole or 100 not in value:
        raise InputError("must be sizes in percent, 100 among them", file=path, field="Avail_Parts", value=value)
    return tuple(sorted(set(value)))
