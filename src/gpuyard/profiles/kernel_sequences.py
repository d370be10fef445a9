"""Kernels of one inference: files of one's own, and what is bundled for models that experiments name."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from gpuyard.core.errors import InputError, nearest
from gpuyard.core.sharing import KernelSequence
from gpuyard.profiles.json_files import read_json
from gpuyard.profiles.step_files import write_whole

VERSION = "kernels/1"
PIXELS = 720 * 1280
"""Of the input that bundled figures are for."""
_FIELDS = ("gpuyard", "durations_us", "layer_ends", "longest_queue", "source")


def is_sequence(path: Path) -> bool:
    """Whether a file says of itself that it has kernels."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and str(content.get("gpuyard")).startswith("kernels/")


def read_sequence(path: Path) -> tuple[KernelSequence, float | None]:
    """Read a file of kernels: the sequence, and the most that were ever queued, if it says so."""
    content = read_json(path, VERSION, "file of kernels")
    for name in content:
        if name not in _FIELDS:
            raise InputError("is not a field of a file of kernels", file=path, value=name, hint=nearest(name, _FIELDS))
    durations, ends, queue = (content.get(name) for name in ("durations_us", "layer_ends", "longest_queue"))
    if not isinstance(durations, list) or not all(_is_number(each) for each in durations):
        raise InputError("must be a list of numbers", file=path, field="durations_us")
    if ends is not None and not (isinstance(ends, list) and all(isinstance(each, int) for each in ends)):
        raise InputError("must be a list of whole numbers", file=path, field="layer_ends")
    if queue is not None and not (_is_number(queue) and queue >= 1):
        raise InputError("must be a number, 1 or more", file=path, field="longest_queue", value=queue)
    try:
        sequence = KernelSequence(tuple(each * 1e-6 for each in durations), tuple(ends or ()), f"profile {path.name}")
    except InputError as error:
        raise error.located(path) from None
    return sequence, queue


def write_sequence(sequence: KernelSequence, longest_queue: int, path: Path) -> None:
    """Write a file of kernels, whole or not at all."""
    content = {
        "gpuyard": VERSION,
        "source": sequence.source,
        "longest_queue": longest_queue,
        "durations_us": [round(each * 1e6, 4) for each in sequence.durations_s],
    }
    content |= {"layer_ends": list(sequence.layer_ends)} if sequence.layer_ends else {}
    write_whole(path, json.dumps(content, indent=1) + "\n")


@cache
def bundled_kernels() -> dict[str, dict[str, Any]]:
    """What is bundled, by model."""
    found: dict[str, dict[str, Any]] = yaml.safe_load((files("gpuyard.profiles") / "zoo" / "kernels.yaml").read_text())
    return found


def model_sequence(model: str, *, batch: int = 1, pixels: float = PIXELS) -> KernelSequence:
    """The kernels of a model by name, longer in proportion to batch and pixels; InputError when nothing is known."""
    known = bundled_kernels()
    name = next((each for each in known if known[each].get("text") and each in model), model)
    if name not in known:
        raise InputError(
            "is a model of whose kernels nothing is known", field="model", value=model,
            hint=f"Give kernels and kernel_ms, or a file of kernels as sequence. {nearest(model, known)}",
        )  # fmt: skip
    entry = known[name]
    factor = batch if entry.get("text") else batch * pixels / PIXELS
    return KernelSequence.uniform(
        entry["kernels"], entry["kernel_ms"] * factor / 1000, source=f"{name}, {entry['basis']}"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
