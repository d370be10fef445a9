"""GPUs for inference as gpulet's device files describe them, with the profiles that they name."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.profiles.gpus import gpu_key
from gpuyard.profiles.inference.bundled import bundled_inference, inference_model, read_latencies, with_latencies
from gpuyard.profiles.inference.model import BATCHES, Interference, ServingGpu, Traffic
from gpuyard.profiles.json_files import parse_json
from gpuyard.profiles.reading import read_text

_FILES = ("latency_prof_file", "interference_const_file", "interference_util_file")
_SHORT_NAMES = {"ssd": "ssd-mobilenetv1"}
"""What gpulet's own tables call a model by."""


def read_devices(path: Path) -> dict[str, ServingGpu]:
    """Read GPU types with their memory, latencies and interference; files are relative to the device file's folder."""
    specs = _specs(path)
    found: dict[str, ServingGpu] = {}
    for number, spec in enumerate(specs):
        where = f"device_specs, {number}"
        if not isinstance(spec, dict) or not isinstance(spec.get("type"), str):
            raise InputError("must have a type, which is text", file=path, field=where)
        memory = spec.get("mem_mb")
        if isinstance(memory, bool) or not isinstance(memory, (int, float)) or not 0 < memory < float("inf"):
            raise InputError("must be a number above 0", file=path, field=f"{where}, mem_mb", value=memory)
        files = {name: path.parent / str(spec[name]) for name in _FILES if name in spec}
        key = gpu_key(spec["type"])
        found[key] = _device(key, float(memory), files)
    return found


def _specs(path: Path) -> list[Any]:
    content = parse_json(read_text(path, "device file"), path)
    specs = content.get("device_specs") if isinstance(content, dict) else None
    if not isinstance(specs, list) or not specs:
        raise InputError("must be a list with at least one entry", file=path, field="device_specs")
    return specs


def _device(key: str, memory_mb: float, files: dict[str, Path]) -> ServingGpu:
    """What the files do not say is as it is bundled, for the type itself or else for the first that is known."""
    known = bundled_inference()
    gpu = replace(known.get(key) or next(iter(known.values())), key=key, memory_mb=memory_mb)
    if "latency_prof_file" in files:
        gpu = with_latencies(gpu, read_latencies(files["latency_prof_file"]))
    elif key not in known:
        raise InputError("is missing, and no latencies of this type are known", field="latency_prof_file", value=key)
    if "interference_util_file" in files:
        traffic = _read_traffic(files["interference_util_file"])
        models = {name: replace(model, traffic=traffic.get(name, model.traffic)) for name, model in gpu.models.items()}
        gpu = replace(gpu, models=models)
    if "interference_const_file" in files:
        gpu = replace(gpu, interference=_read_constants(files["interference_const_file"]))
    return gpu


def _rows(path: Path, what: str) -> Iterator[tuple[int, list[str]]]:
    """Lines without comments and the head."""
    lines = read_text(path, what).splitlines()
    rows = [(n, [each.strip() for each in row]) for n, row in enumerate(csv.reader(lines), 1)
            if row and not row[0].startswith("#")]  # fmt: skip
    yield from rows[1:]


def _number(path: Path, row: int, field: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise InputError("must be a number", file=path, row=row, field=field, value=text)
    return value


def _read_traffic(path: Path) -> dict[str, dict[int, Traffic]]:
    """Of gpulet's UTIL.CSV the percentages of L2 and DRAM, by model and batch."""
    found: dict[str, dict[int, Traffic]] = {}
    for row, cells in _rows(path, "table of utilisation"):
        if len(cells) < 6:
            raise InputError("must be model,batch,duration,SM,L2,DRAM,…", file=path, row=row)
        batch = int(_number(path, row, "batch", cells[1]))
        l2, dram = (_number(path, row, name, cells[k]) / 100.0 for k, name in ((4, "L2"), (5, "DRAM")))
        name = inference_model(_SHORT_NAMES.get(cells[0], cells[0]))
        found.setdefault(name, {})[batch] = Traffic(l2, dram)
    for name, rows in found.items():
        for batch in (1 << k for k in range(BATCHES.bit_length())):
            if batch not in rows:
                raise InputError(f"has no batch of {batch}", file=path, field="model", value=name)
    return found


def _read_constants(path: Path) -> Interference:
    """Of gpulet's INT_MODEL_CONSTANT.CSV the five numbers."""
    for row, cells in _rows(path, "table of constants"):
        texts = [each for each in cells if each]
        if len(texts) != 5:
            raise InputError("must be five numbers", file=path, row=row)
        return Interference(*(_number(path, row, f"number {k}", each) for k, each in enumerate(texts, 1)))
    raise InputError("must have a head and one line of five numbers", file=path)
