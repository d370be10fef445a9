"""Experiments for pairs of models, as the study generates them: one file each, in folders by device."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.profiles.kernel_sequences import bundled_kernels
from gpuyard.profiles.step_files import write_whole

MODELS = (
    "fasterrcnn_resnet50_fpn", "fasterrcnn_mobilenet_v3_large_fpn", "maskrcnn_resnet50_fpn", "retinanet_resnet50_fpn",
    "fcos_resnet50_fpn", "keypointrcnn_resnet50_fpn", "codegen",
)  # fmt: skip
"""Six detectors and a language model; which six the study took is not known."""


@dataclass(frozen=True)
class PairChoice:
    """What is combined with what; the defaults are the study's."""

    models: tuple[str, ...] = MODELS
    batches: tuple[int, ...] = (1, 8)
    """Of the background job."""
    urgent_batches: tuple[int, ...] = (1, 4)
    thinks_s: tuple[float, ...] = (2.0,)
    sync_every: tuple[int, ...] = (1, 50, 500)
    gpus: int = 3
    seconds: int = 90


def write_pairs(choice: PairChoice, folder: Path) -> list[Path]:
    """Write a file for each combination below `folder/device_N`; returns them in order."""
    if folder.exists() and any(folder.iterdir()):
        raise InputError("is not empty", file=folder, hint="Name another folder")
    paths = []
    for name, content in experiments(choice):
        path = folder / f"device_{content['device_id']}" / f"{name}.json"
        write_whole(path, json.dumps(content, indent=2) + "\n")
        paths.append(path)
    return paths


def experiments(choice: PairChoice) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every ordered pair of models, a model with itself among them, with every setting; GPUs take turns."""
    known = bundled_kernels()
    for model in choice.models:
        if model not in known:
            raise InputError("is a model of whose kernels nothing is known", field="models", value=model)
    pairs = product(choice.models, choice.models)
    settings = product(pairs, choice.batches, choice.urgent_batches, choice.thinks_s, choice.sync_every)
    for number, ((a, b), batch, urgent_batch, think_s, every) in enumerate(settings):
        name = f"{a}_batch_{batch}_vs_{b}_batch_{urgent_batch}_think_{think_s:g}_sync_{every}"
        models = [_entry(a, "model_A", batch, 0, 0.0, every), _entry(b, "model_B", urgent_batch, 1, think_s, None)]
        yield name, {"models": models, "exp_dur": choice.seconds, "device_id": number % choice.gpus}


def _entry(model: str, name: str, batch: int, priority: int, think_s: float, every: int | None) -> dict[str, Any]:
    control = {"control": True, "controlsync": every is not None, "controlEvent": False}
    return {
        "model_name": model,
        "sleep_time": think_s,
        "output_file_path": "./logs",
        "output_file_name": name,
        "priority": priority,
        "resize": True,
        "resize_size": [720, 1280],
        "batch_size": batch,
        "sync_level": "",
        "control": control | ({"queue_limit": {"sync": every}} if every is not None else {}),
    }
