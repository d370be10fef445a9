"""Models on slices as planners ask about them: out of their profiles, or with latencies of the user's own."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from math import isfinite
from pathlib import Path

from gpuyard.core.errors import InputError, nearest
from gpuyard.profiles.collection import Zoo, load_zoo
from gpuyard.profiles.gpus import gpu_key
from gpuyard.profiles.inference.model import BATCHES, InferenceModel, ServingGpu, Traffic
from gpuyard.profiles.model import ModelProfile
from gpuyard.profiles.reading import read_text
from gpuyard.profiles.serving_parts import LatencyProfile
from gpuyard.profiles.serving_store import bundled_serving, bundled_sharing

_GPULET_IDS = (
    "lenet1", "lenet2", "lenet3", "lenet4", "lenet5", "lenet6", "googlenet", "resnet50", "ssd-mobilenetv1", "vgg16",
    "mnasnet1_0", "mobilenet_v2", "densenet161", "bert",
)  # fmt: skip
Latencies = dict[str, dict[int, dict[int, float]]]
"""Milliseconds by model, slice in percent, and batch."""


QUIET = {1 << k: Traffic(0.0, 0.0) for k in range(BATCHES.bit_length())}
"""Of a model that disturbs nobody."""


def gpulet_ids() -> tuple[str, ...]:
    """The models of gpulet's task lists, by their numbers there."""
    return _GPULET_IDS


@lru_cache(maxsize=1)
def _bundled() -> Zoo:
    return load_zoo()


def inference_model(name: str, zoo: Zoo | None = None) -> str:
    """The name of a model in plans of slices, by any of its names; itself if nothing is known of it."""
    return (zoo or _bundled()).served_as(name)


@lru_cache(maxsize=1)
def bundled_inference() -> Mapping[str, ServingGpu]:
    """What is known of models on each kind of GPU, by its key."""
    return serving_gpus(_bundled(), bundled_sharing(), ())


def serving_gpus(zoo: Zoo, gpu_types: Iterable[str], models: Collection[str]) -> dict[str, ServingGpu]:
    """Those of these GPU types of which a zoo knows anything, by their keys.

    All bundled models are known there, and of the user's own those that are named: slices are those on which every
    model was measured, and one that nobody asks for should not count. Raises InputError for a model that is named, but
    whose latencies do not reach as far as planning does.
    """
    names = dict.fromkeys([*(each.label for each in bundled_serving().values()), *map(zoo.served_as, models)])
    profiles = {name: zoo.profile(name) for name in names if zoo.knows(name)}
    found = {}
    for key in map(gpu_key, gpu_types):
        latency = {name: each for name, profile in profiles.items() for each in profile.latency if each.gpu == key}
        if latency:
            known = {name: _model(name, profiles[name], each) for name, each in latency.items()}
            found[key] = ServingGpu(key, *zoo.gpu_sharing(key), known)
    return found


def _model(name: str, profile: ModelProfile, latency: LatencyProfile) -> InferenceModel:
    serving = profile.serving
    return InferenceModel(
        name=name,
        latency_ms=latency.latency_ms,
        gathering_ms=serving.gathering_ms,
        memory_mb=profile.served_mb,
        input_bytes=serving.input_bytes,
        input=serving.input,
        output=serving.output,
        traffic=latency.traffic or QUIET,
    )


def with_latencies(gpu: ServingGpu, latencies: Latencies) -> ServingGpu:
    """The same GPU with these latencies; of models that have none here, nothing is known any more.

    A model that is not bundled takes no time to gather a batch, no memory, and disturbs nobody.
    """
    models = {
        name: replace(gpu.models[name], latency_ms=rows) if name in gpu.models
        else InferenceModel(name, rows, traffic=QUIET)
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
