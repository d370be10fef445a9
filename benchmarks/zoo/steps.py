"""Writes the bundled step profiles: thirteen batch sizes and the largest that fitted, of every model and GPU."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.zoo.tables import SOURCE, read_table
from gpuyard.profiles.fitting import thinned
from gpuyard.profiles.measurements import read_measurements
from gpuyard.profiles.step_files import MIB, dump_steps
from gpuyard.profiles.steps import StepProfile, signature

HEADER = """\
# Step times and memory (docs/profiles.md), from the tables of mengwanguc/gpemu. Written by `python -m benchmarks.zoo`.
"""
SIGNATURES_HEADER = """\
# The models in steps/ by the signature of their parameters (docs/profiles.md). Written by `python -m benchmarks.zoo`.
"""


def write_steps(folder: Path, out: Path) -> None:
    """Write a file for each model, and the index of signatures."""
    out.joinpath("steps").mkdir(exist_ok=True)
    index = []
    for model, profiles in bundled_steps(folder):
        signatures = tuple(model_signatures(model))
        named = [replace(profile, signatures=signatures) for profile in profiles]
        out.joinpath("steps", f"{model}.yaml").write_text(HEADER + dump_steps(named), encoding="utf-8")
        index += [f'"{each}": {model}\n' for each in signatures]
    out.joinpath("signatures.yaml").write_text(SIGNATURES_HEADER + "".join(index), encoding="utf-8")


def bundled_steps(folder: Path) -> Iterator[tuple[str, list[StepProfile]]]:
    """Yield each model with its profiles, by name; signatures are left out."""
    memory = read_table(folder, "memory.csv").rows_by_key(["gpu", "model", "batch_size"], named=True, unique=True)
    profiles = [thinned(profile) for profile in read_measurements(folder / "compute_time.csv")]
    for model, group in groupby(sorted(profiles, key=lambda profile: profile.model), lambda profile: profile.model):
        yield model, [_described(profile, memory) for profile in group]


def _described(profile: StepProfile, memory: dict[tuple[str, str, int], dict[str, float]]) -> StepProfile:
    """Add the memory, and how all of it was measured."""
    points = []
    for point in profile.points:
        held = memory[profile.gpu, profile.model, point.batch]
        if held["persistent_mib"] > 0:  # the source's parabola, where nothing was measured, can fall below nothing
            point = point._replace(  # noqa: PLW2901
                peak_bytes=round(held["peak_mib"] * MIB),
                persistent_bytes=round(held["persistent_mib"] * MIB),
                memory_measured=held["measured"] == 1,
            )
        points.append(point)
    return replace(
        profile,
        points=tuple(points),
        input_shape=(3, 224, 224),
        optimizer="SGD, momentum 0.9, weight decay 1e-4",
        source=SOURCE,
    )


def model_signatures(model: str) -> Iterator[str]:
    """Yield the signatures of a torchvision model, with and without its auxiliary classifiers."""
    import torch

    models: Any = import_module("torchvision.models")
    for options in ({}, {"aux_logits": False}) if model == "googlenet" else ({},):
        with warnings.catch_warnings(), torch.device("meta"):
            warnings.simplefilter("ignore")  # of weights that nobody will use
            built = models.get_model(model, **options)
        yield signature(tuple(parameter.shape) for parameter in built.parameters())
