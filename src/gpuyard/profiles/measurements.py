"""Measured steps from a CSV file, and the few of them that make a profile."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from gpuyard.core.errors import InputError, nearest
from gpuyard.profiles.gpus import find_gpu
from gpuyard.profiles.reading import read_text
from gpuyard.profiles.step_files import MIB
from gpuyard.profiles.steps import STANDARD_BATCHES, StepPoint, StepProfile

REQUIRED = ("gpu", "model", "batch_size", "forward_s", "backward_s")
OPTIONAL = ("measured", "peak_mib", "persistent_mib")


def read_measurements(path: Path) -> tuple[StepProfile, ...]:
    """Return all rows of a CSV file as profiles, one for each pair of GPU and model; lines with # are comments."""
    found: dict[tuple[str, str], dict[int, StepPoint]] = {}
    for row, values in _rows(path):
        point = _point(path, row, values)
        points = found.setdefault((_gpu(values["gpu"]), values["model"]), {})
        if point.batch in points:
            raise InputError("stands twice for this GPU and model", file=path, row=row, field="batch_size",
                             value=point.batch, hint="Give the mean of repeated measurements")  # fmt: skip
        points[point.batch] = point
    if not found:
        raise InputError("has no row of measurements", file=path, hint=f"Columns: {', '.join(REQUIRED)}")
    return tuple(
        StepProfile(model, gpu, tuple(points[batch] for batch in sorted(points)), source=str(path))
        for (gpu, model), points in found.items()
    )


def sparse(points: Sequence[StepPoint]) -> tuple[StepPoint, ...]:
    """Keep the standard batch sizes and the largest that was measured; of a few points, all."""
    if len(points) <= len(STANDARD_BATCHES) + 1:
        return tuple(points)
    largest = max((point.batch for point in points if point.measured), default=0)
    return tuple(point for point in points if point.batch in STANDARD_BATCHES or point.batch == largest)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield each row with the number of its line."""
    lines = read_text(path, "table of measurements").splitlines()
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]
    reader = csv.reader(line for _, line in numbered)
    names = next(reader, [])
    for name in REQUIRED:
        if name not in names:
            hint = nearest(name, names) if names else f"Columns: {', '.join(REQUIRED)}"
            raise InputError(f"has no column {name!r}", file=path, hint=hint)
    for (number, _), cells in zip(numbered[1:], reader, strict=True):
        if len(cells) != len(names):
            raise InputError(f"cells, but there are {len(names)} columns", file=path, row=number, value=len(cells))
        yield number, dict(zip(names, cells, strict=True))


def _point(path: Path, row: int, values: dict[str, str]) -> StepPoint:
    def positive(name: str) -> float:
        try:
            number = float(values[name])
        except ValueError:
            number = math.nan
        if not 0 < number < math.inf:
            raise InputError("is not a positive number", file=path, row=row, field=name, value=values[name])
        return number

    batch = positive("batch_size")
    if batch != int(batch):
        raise InputError("is not a whole number", file=path, row=row, field="batch_size", value=values["batch_size"])
    peak, persistent = (
        round(positive(name) * MIB) if values.get(name) else None for name in ("peak_mib", "persistent_mib")
    )
    measured = values.get("measured", "1") not in {"0", "false", "False"}
    return StepPoint(int(batch), positive("forward_s"), positive("backward_s"), measured, peak, persistent)


@lru_cache(maxsize=64)
def _gpu(name: str) -> str:
    """Return the key of a GPU kind that gpuyard knows; any other name stays as it is."""
    try:
        return find_gpu(name).key
    except InputError:
        return name
