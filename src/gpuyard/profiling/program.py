"""Runs a PyTorch program with a recorder inside, and makes a profile of what it recorded."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuyard.core.errors import GpuyardError, InputError, MissingExtraError
from gpuyard.emulation.settings import UNPROFILED, Settings
from gpuyard.profiles.gpus import find_gpu
from gpuyard.profiles.steps import StepPoint, StepProfile, signature
from gpuyard.profiling.recorder import VARIABLE

_HAS_GPU = "import sys, torch; sys.exit(0 if torch.cuda.is_available() else 1)"


class NothingRecordedError(GpuyardError):
    """The program ended without a training step on a GPU."""


def has_gpu() -> bool:
    """Say whether torch finds a real GPU here."""
    _need_torch()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GPUYARD_")}
    return subprocess.run([sys.executable, "-c", _HAS_GPU], env=environment, check=False).returncode == 0  # noqa: S603


def record(script: Sequence[str], gpu: str | None, name: str | None = None) -> StepProfile:
    """Run a script and return its profile: measured on a real GPU, or predicted for the named kind."""
    _need_torch()
    if not Path(script[0]).is_file():
        raise InputError("is not a file", field="script", value=script[0])
    environment = dict(os.environ)
    if gpu is not None:
        predicted = Settings(gpus=find_gpu(gpu).key, clock="device", profile=UNPROFILED, granularity="op")
        environment.update(predicted.environment())
    with tempfile.TemporaryDirectory(prefix="gpuyard-") as folder:
        target = Path(folder) / "steps.json"
        environment[VARIABLE] = str(target)
        finished = subprocess.run([sys.executable, *script], env=environment, check=False)  # noqa: S603 - the user's script
        if not target.exists():
            raise NothingRecordedError(
                f"{script[0]} ended (exit code {finished.returncode}) without a training step on a GPU: a model moved "
                "with .cuda() or .to('cuda'), called in train mode, and an optimizer of torch.optim are needed"
            )
        content = json.loads(target.read_text(encoding="utf-8"))
    return _profile(content, predicted=gpu is not None, name=name)


def _need_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("gpuyard profile torch", "torch")


def _profile(content: dict[str, Any], *, predicted: bool, name: str | None) -> StepProfile:
    points = tuple(
        StepPoint(
            point["batch"], point["forward_s"], point["backward_s"], not predicted,
            point["peak_bytes"], point["persistent_bytes"], not predicted,
        )
        for point in content["points"]
    )  # fmt: skip
    how = "predicted from costs of operations" if predicted else "measured"
    return StepProfile(
        model=re.sub(r"[^A-Za-z0-9_.-]", "_", name or content["model"]),
        gpu=_key(content["gpu_name"]),
        points=points,
        precision=content["precision"],
        input_shape=tuple(content["input_shape"]),
        optimizer=content["optimizer"],
        signatures=(signature(tuple(shape) for shape in content["shapes"]),),
        source=f"{how} by gpuyard profile torch, torch {content['torch']}, {content['date']}",
    )


def _key(name: str) -> str:
    """Return our name of a GPU kind; one that we do not know keeps its own."""
    try:
        return find_gpu(name).key
    except InputError:
        return name.replace(" ", "_")


def merged(old: Sequence[StepProfile], fresh: StepProfile) -> list[StepProfile]:
    """Add a profile to those of the same model: its points replace those of the same GPU and batch size."""
    points = {point.batch: point for profile in old if profile.gpu == fresh.gpu for point in profile.points}
    points.update({point.batch: point for point in fresh.points})
    whole = replace(fresh, points=tuple(points[batch] for batch in sorted(points)))
    return [*(profile for profile in old if profile.gpu != fresh.gpu), whole]
