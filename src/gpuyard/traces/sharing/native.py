"""Experiments of our own: YAML with any number of jobs, priorities and ways in which jobs come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.core.sharing import SharedJob, SharingExperiment
from gpuyard.traces.arrivals import read_arrivals
from gpuyard.traces.sharing.fields import (
    SEQUENCE_FIELDS,
    Pause,
    check_fields,
    check_job_name,
    drawn_arrivals_s,
    pauses_s,
    sequence_of,
    times_s,
    typed,
)
from gpuyard.traces.source import Source
from gpuyard.traces.yaml_rows import Record, read_parts

VERSION = "sharing/1"
TOP = {"seconds": float, "policy": str, "sharing": str}
PLAIN = {
    "priority": int, "share": float, "demand": float, "gated": bool, "sync_every": int, "window": int, "streams": int,
    "warm_up": int, "least_jobs": int, "gpu": int,
}  # fmt: skip
"""Fields that a job has under the same name."""
SCALED = {"slo_ms": 1e3, "launch_us": 1e6, "sync_us": 1e6, "expected_kernel_ms": 1e3}
PAUSE = Pause("think_ms", "think_jitter_ms", 1e3)
COMING = ("think_ms", "rate_per_s", "arrivals_s", "arrivals")
FIELDS = ("name", "model", "batch", *SEQUENCE_FIELDS, "sync_layers", "think_jitter_ms", *COMING, *PLAIN, *SCALED)


def read_native(path: Path, seed: int, seconds: float | None) -> SharingExperiment:
    """Read an experiment of ours; InputError names file, row, field, value and rule."""
    source = Source.open(path)
    lists, top = read_parts(source, VERSION, ("jobs",), tuple(TOP))
    try:
        found: dict[str, Any] = {name: typed(top, name, kind) for name, kind in TOP.items() if name in top}
        found |= {"seconds": seconds} if seconds is not None else {}
        if "seconds" not in found:
            raise InputError("is missing", field="seconds")
        jobs = tuple(_located(source, record, path.parent, float(found["seconds"]), seed) for record in lists["jobs"])
        return SharingExperiment(jobs, **found)
    except InputError as error:
        raise error if error.file is not None else error.located(path) from None


def _located(source: Source, record: Record, folder: Path, seconds: float, seed: int) -> SharedJob:
    try:
        return _job(record.values, folder, seconds, seed)
    except InputError as error:
        raise error if error.file is not None else error.located(source.name, record.row) from None


def _job(values: dict[str, Any], folder: Path, seconds: float, seed: int) -> SharedJob:
    check_fields(values, FIELDS, "a job")
    name, model = typed(values, "name", str), typed(values, "model", str, "") or None
    check_job_name(name, "name")
    found = {field: typed(values, field, kind) for field, kind in PLAIN.items() if field in values}
    found |= times_s(values, SCALED)
    return SharedJob(
        name,
        sequence_of(values, folder, model, batch=typed(values, "batch", int, 1)),
        layers=typed(values, "sync_layers", bool, default=False),
        **_coming(name, values, folder, seconds, seed),
        **found,
    )


def _coming(name: str, values: dict[str, Any], folder: Path, seconds: float, seed: int) -> dict[str, Any]:
    given = [field for field in COMING if field in values]
    if len(given) > 1:
        raise InputError(f"excludes {given[1]}: jobs come in one way", field=given[0], value=values[given[0]])
    if given == ["rate_per_s"]:
        return {"arrivals_s": drawn_arrivals_s(name, typed(values, "rate_per_s", float), seconds, seed)}
    if given == ["arrivals"]:
        times = read_arrivals(folder / typed(values, "arrivals", str), None).of(name)
        return {"arrivals_s": tuple(each for each in times.tolist() if each < seconds)}
    if given == ["arrivals_s"]:
        times_s = [typed({"arrivals_s": each}, "arrivals_s", float) for each in typed(values, "arrivals_s", list)]
        return {"arrivals_s": tuple(each for each in times_s if not each >= seconds)}  # no number stays, to be refused
    return {"thinks_s": pauses_s(name, values, PAUSE, typed(values, "think_ms", float, 0.0), seed)}
