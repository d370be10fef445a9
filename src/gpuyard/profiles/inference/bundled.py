"""The bundled figures of inference on slices, and latencies of the user's own instead of them."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any

from gpuyard.core.errors import InputError, nearest
from gpuyard.profiles.gpus import gpu_key
from gpuyard.profiles.inference.model import BATCHES, InferenceModel, Interference, ServingGpu, TensorKind, Traffic
from gpuyard.profiles.names import NameIndex, canonical
from gpuyard.profiles.reading import bundled_yaml, read_text

FILE = "inference.yaml"
Latencies = dict[str, dict[int, dict[int, float]]]
"""Milliseconds by model, slice in percent, and batch."""


def gpulet_ids() -> tuple[str, ...]:
    """The models of gpulet's task lists, by their numbers there."""
    return tuple(bundled_yaml(FILE)["ids"])


@lru_cache(maxsize=1)
def _index() -> NameIndex:
    models = bundled_yaml(FILE)["models"]
    return NameIndex({name: (*model.get("aliases", ()), canonical(name)) for name, model in models.items()})


def inference_model(name: str) -> str:
    """The name under which a model's inference is known, by any of its names; itself if it is not."""
    return _index().find(name) or _index().find(canonical(name)) or name


@lru_cache(maxsize=1)
def bundled_inference() -> Mapping[str, ServingGpu]:
    """What is known of models on each kind of GPU, by its key."""
    content = bundled_yaml(FILE)
    return {key: _gpu(key, content) for key in content["gpus"]}


def _gpu(key: str, content: dict[str, Any]) -> ServingGpu:
    about = content["gpus"][key]
    models = {name: _model(name, model, key) for name, model in content["models"].items()}
    return ServingGpu(key, float(about["memory_mb"]), Interference(*about["interference"]), models)


def _model(name: str, model: dict[str, Any], gpu: str) -> InferenceModel:
    here = model["gpus"][gpu]
    return InferenceModel(
        name=name,
        latency_ms=here["latency_ms"],
        gathering_ms=tuple(model["gathering_ms"]),
        memory_mb=float(model["memory_mb"]),
        input_bytes=model["input_bytes"],
        input=_tensor(model["input"]),
        output=_tensor(model["output"]),
        traffic={batch: Traffic(*pair) for batch, pair in here["traffic"].items()},
    )


def _tensor(text: list[Any]) -> TensorKind:
    datatype, *shape = text
    return TensorKind(datatype, tuple(shape))


def with_latencies(gpu: ServingGpu, latencies: Latencies) -> ServingGpu:
    """The same GPU with these latencies; of models that have none here, nothing is known any more.

    A model that is not bundled takes no time to gather a batch, no memory, and disturbs nobody.
    """
    quiet = {1 << k: Traffic(0.0, 0.0) for k in range(BATCHES.bit_length())}
    models = {
        name: replace(gpu.models[name], latency_ms=rows) if name in gpu.models
        else InferenceModel(name, rows, traffic=quiet)
        for name, rows in latencies.items()
    }  # fmt: skip
    return replace(gpu, models=models)


def with_slices(gpu: ServingGpu, percents: Collection[int]) -> ServingGpu:
    """The same GPU, cut into no other slices than these."""
    models = {
        name: replace(model, latency_ms={p: row for p, row in model.latency_ms.items() if p in percents})
        for name, model in gpu.models.items()
    }
    return replace(gpu, models=models)


def read_latencies(path: Path) -> Latencies:
    """Read a latency profile as gpulet's: model, slice in percent, batch, milliseconds; a head and comments may be."""
    found: Latencies = {}
    lines = read_text(path, "latency profile").splitlines()
    for number, row in enumerate(csv.reader(lines), start=1):
        if not row or row[0].startswith("#") or (not found and row[-1].strip() == "latency_ms"):
            continue
        name, percent, batch, ms = _row(path, number, [each.strip() for each in row if each.strip()])
        slices = found.setdefault(inference_model(name), {}).setdefault(percent, {})
        if batch in slices:
            raise InputError("stands twice", file=path, row=number, field="batch", value=batch)
        slices[batch] = ms
    if not found:
        raise InputError("has no latencies", file=path, hint="Lines are model,percent,batch,milliseconds")
    return found


def _row(path: Path, number: int, row: list[str]) -> tuple[str, int, int, float]:
    if len(row) != 4:
        rule = f"has {len(row)} fields, and a latency has four: model,percent,batch,milliseconds"
        raise InputError(rule, file=path, row=number)
    limits = {"percent": (1, 100), "batch": (1, BATCHES)}
    whole = []
    for (field, (least, most)), text in zip(limits.items(), row[1:3], strict=True):
        if not text.isdigit() or not least <= int(text) <= most:
            rule = f"must be a whole number from {least} to {most}"
            raise InputError(rule, file=path, row=number, field=field, value=text)
        whole.append(int(text))
    try:
        ms = float(row[3])
    except ValueError:
        ms = -1.0
    if not (isfinite(ms) and ms > 0):
        raise InputError("must be a number above 0", file=path, row=number, field="latency_ms", value=row[3])
    return row[0], whole[0], whole[1], ms


def serving_gpu(gpu_type: str) -> ServingGpu:
    """What is known of models on a kind of GPU."""
    known = bundled_inference()
    key = gpu_key(gpu_type)
    if key not in known:
        raise InputError("has no latency profile", field="gpus", value=gpu_type, hint=nearest(key, list(known)))
    return known[key]
