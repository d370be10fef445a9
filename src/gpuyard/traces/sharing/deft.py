"""Deft's experiment files, as they are; with a few fields of ours that say what its programs would have found out.

Each entry of `models` is a process. Deft's own meaning is kept: a process takes part in the gate if `control` is on and
its library is preloaded (`controlsync` or `controlEvent`), or if it announces its jobs (`priority` above 0).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from gpuyard.core.arguments import check_number
from gpuyard.core.errors import InputError
from gpuyard.core.sharing import SharedJob, SharingExperiment
from gpuyard.profiles.json_files import parse_json, unique_names
from gpuyard.profiles.kernel_sequences import PIXELS
from gpuyard.traces.sharing.fields import (
    SEQUENCE_FIELDS,
    Pause,
    check_fields,
    check_job_name,
    fields_said_as,
    pauses_s,
    sequence_of,
    times_s,
    typed,
)
from gpuyard.traces.source import Source

TOP = ("models", "exp_dur", "device_id")
OURS_ON_TOP = ("policy", "sharing")
MODEL = (
    "model_name", "model_weight", "sleep_time", "input_file_path", "output_file_path", "output_file_name", "priority",
    "resize", "resize_size", "batch_size", "sync_level", "python_path", "repo_path", "control",
)  # fmt: skip
OURS = (*SEQUENCE_FIELDS, "sleep_jitter", "slo_ms", "share", "demand", "streams", "launch_us", "sync_us")
"""What a simulation needs to know, and Deft's programs measure."""
TEXTS = ("model_weight", "input_file_path", "output_file_path", "output_file_name", "python_path", "repo_path")
SYNC_LEVELS = ("", "layer", "kernel")
LEAST_JOBS = 10
"""A process goes on until it has done so many."""
PAUSE = Pause("sleep_time", "sleep_jitter")
TIMES = {"slo_ms": 1e3, "launch_us": 1e6, "sync_us": 1e6}
SAID = {"seconds": "exp_dur", "jobs": "models", "gpu": "device_id"}
"""What errors call a field, and how this format does."""
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")


def read_deft(path: Path, seed: int, seconds: float | None) -> SharingExperiment:
    """Read an experiment of Deft's; InputError says what is wrong, and where."""
    content = _parsed(path)
    try:
        with fields_said_as(SAID):
            return _experiment(content, path, seed, seconds)
    except InputError as error:
        raise error if error.file is not None else error.located(path) from None


def _parsed(path: Path) -> dict[str, Any]:
    text = Source.open(path).text()
    outside_texts = re.sub(r'"(?:[^"\\]|\\.)*"', lambda found: "x" * len(found[0]), text)
    if comma := _TRAILING_COMMA.search(outside_texts):
        rule = "is not JSON: a comma stands before a closing bracket"
        raise InputError(rule, file=path, row=text.count("\n", 0, comma.start()) + 1, hint="Delete that comma")
    content = parse_json(text, path, unique_names)
    if not isinstance(content, dict):
        raise InputError("must be an object with models, exp_dur and device_id", file=path)
    return content


def _experiment(content: dict[str, Any], path: Path, seed: int, seconds: float | None) -> SharingExperiment:
    check_fields(content, (*TOP, *OURS_ON_TOP), "an experiment")
    entries = typed(content, "models", list)
    gpu = typed(content, "device_id", int)
    seconds = typed(content, "exp_dur", float) if seconds is None else seconds
    jobs: list[SharedJob] = []
    notes: list[str] = []
    for number, entry in enumerate(entries):
        place = f"models[{number}]"
        if not isinstance(entry, dict):
            raise InputError("must be an object", field=place, value=entry)
        try:
            with fields_said_as(SAID):
                job, note = _job(entry, path.parent, gpu, seed, {each.name for each in jobs})
        except InputError as error:
            where = f"{place}, {error.field}" if error.field else place
            raise InputError(
                error.rule, file=error.file, row=error.row, field=where, value=error.value, hint=error.hint
            ) from None
        jobs.append(job)
        notes += [f"{job.name}: {note}"] if note else []
    ours = {name: typed(content, name, str) for name in OURS_ON_TOP if name in content}
    return SharingExperiment(tuple(jobs), seconds, notes=tuple(notes), **ours)


def _job(entry: dict[str, Any], folder: Path, gpu: int, seed: int, taken: set[str]) -> tuple[SharedJob, str]:
    check_fields(entry, (*MODEL, *OURS), "a model's entry")
    model = typed(entry, "model_name", str)
    for name in TEXTS:
        typed(entry, name, str, "")
    name = entry.get("output_file_name") or model
    check_job_name(name, "output_file_name" if entry.get("output_file_name") else "model_name")
    name = name if name not in taken else f"{name}-{len(taken) + 1}"
    priority, batch = typed(entry, "priority", int), typed(entry, "batch_size", int)
    check_number(priority, "priority", least=0, most=9)
    check_number(batch, "batch_size", least=1, most=1e6)
    control, note = _control(entry, priority)
    level = typed(entry, "sync_level", str, "")
    if level not in SYNC_LEVELS:
        raise InputError("is not layer, kernel or empty", field="sync_level", value=level)
    numbers: dict[str, Any] = {key: typed(entry, key, float) for key in ("share", "demand") if key in entry}
    numbers |= times_s(entry, TIMES)
    return SharedJob(
        name,
        sequence_of(entry, folder, model, batch=batch, pixels=_pixels(entry)),
        priority,
        pauses_s(name, entry, PAUSE, typed(entry, "sleep_time", float), seed),
        layers=level == "layer",
        streams=typed(entry, "streams", int, 1),
        least_jobs=LEAST_JOBS,
        gpu=gpu,
        **control,
        **numbers,
    ), note


def _control(entry: dict[str, Any], priority: int) -> tuple[dict[str, Any], str]:
    """Whether it takes part, and its cap; and what Deft would do that one may not expect."""
    control = typed(entry, "control", dict)
    check_fields(control, ("control", "controlsync", "controlEvent", "queue_limit"), "control")
    on, sync, event = (
        typed(control, name, bool, within="control.") for name in ("control", "controlsync", "controlEvent")
    )
    limits = typed(control, "queue_limit", dict, {}, within="control.")
    check_fields(limits, ("sync", "event_group"), "control.queue_limit")
    for name in limits:
        check_number(typed(limits, name, int, within="control.queue_limit."), f"control.queue_limit.{name}", least=1)
    found: dict[str, Any] = {"gated": on and (sync or event or priority > 0)}
    if on and event:
        found["window"] = typed(limits, "event_group", int, within="control.queue_limit.")
    elif on and sync:
        found["sync_every"] = typed(limits, "sync", int, within="control.queue_limit.")
    alone = on and not sync and not event and priority == 0
    return found, "control without controlsync or controlEvent gates nothing, as in Deft" if alone else ""


def _pixels(entry: dict[str, Any]) -> float:
    """Of the input; Deft's weights bring their own size where it is not resized, taken here as 720 x 1280."""
    size = entry.get("resize_size")
    if size is None:
        return PIXELS
    if not (isinstance(size, list) and len(size) == 2 and all(type(each) is int and each > 0 for each in size)):
        raise InputError("must be [height, width]", field="resize_size", value=size)
    return float(size[0] * size[1]) if typed(entry, "resize", bool, default=False) else PIXELS
