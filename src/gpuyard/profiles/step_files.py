"""The step profile file: one model, YAML in and out."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.profiles.gpus import gpu_key
from gpuyard.profiles.reading import load_yaml
from gpuyard.profiles.steps import StepPoint, StepProfile

MIB = 2**20

HEADER = ("model", "precision", "input_shape", "optimizer", "signatures", "source")
"""What the profiles in one file have in common."""


def parse_steps(text: str, file: str) -> tuple[StepProfile, ...]:
    """Read a step profile file: a profile for each GPU in it."""
    from gpuyard.profiles.step_schema import checked_steps

    return steps_of(checked_steps(load_yaml(text, file), file))


def steps_of(content: dict[str, Any]) -> tuple[StepProfile, ...]:
    """Return a profile for each GPU in a file's content; a test, not every start, checks that of the bundled ones."""
    return tuple(_profile(gpu_key(gpu), entry, content) for gpu, entry in content["gpus"].items())


def _profile(gpu: str, entry: dict[str, Any], content: dict[str, Any]) -> StepProfile:
    guessed, guessed_memory = entry.get("predicted") or (), entry.get("predicted_memory") or ()
    points = (
        StepPoint(
            batch,
            row[0] / 1e3,
            row[1] / 1e3,
            batch not in guessed,
            *(round(mib * MIB) for mib in row[2:]),
            **({"memory_measured": batch not in guessed_memory} if row[2:] else {}),
        )
        for batch, row in sorted(entry["steps"].items())
    )
    header: dict[str, Any] = {
        name: tuple(content[name]) if isinstance(content[name], list) else content[name]
        for name in HEADER
        if name in content
    }
    return StepProfile(gpu=gpu, points=tuple(points), **header)


def dump_steps(profiles: Sequence[StepProfile]) -> str:
    """Return the file of one model's profiles, which agree in all but the GPU."""
    first = profiles[0]
    lines = [
        f"{name}: {json.dumps(value, ensure_ascii=False)}"  # which is YAML too, and quotes what has to be quoted
        for name, value in vars(first).items()
        if name in HEADER and value
    ]
    lines.append("gpus:")
    for profile in profiles:
        lines += [
            f"  {json.dumps(profile.gpu)}:",
            "    steps:  # batch: [forward_ms, backward_ms, peak_mib, persistent_mib]",
        ]
        lines += [f"      {point.batch}: [{', '.join(_row(point))}]" for point in profile.points]
        guessed = [point.batch for point in profile.points if not point.measured]
        guessed_memory = [point.batch for point in profile.points if not point.memory_measured]
        lines += [f"    predicted: {guessed}"] if guessed else []
        lines += [f"    predicted_memory: {guessed_memory}"] if guessed_memory else []
    return "\n".join(lines) + "\n"


def _row(point: StepPoint) -> list[str]:
    memory = [] if point.peak_bytes is None else [point.peak_bytes / MIB, (point.persistent_bytes or 0) / MIB]
    return [f"{value:.7g}" for value in (point.forward_s * 1e3, point.backward_s * 1e3, *memory)]


def write_profiles(profiles: Sequence[StepProfile], folder: Path) -> list[Path]:
    """Write a file for each model, when all of them are known to be readable again; returns the files."""
    models = dict.fromkeys(profile.model for profile in profiles)
    texts = {name: dump_steps([profile for profile in profiles if profile.model == name]) for name in models}
    for name, text in texts.items():
        parse_steps(text, f"{name}.yaml")
    for name, text in texts.items():
        write_whole(folder / f"{name}.yaml", text)
    return [folder / f"{name}.yaml" for name in texts]


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name beside its place, and move it there when it is complete."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content if isinstance(content, bytes) else content.encode())
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=path) from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
