"""Where step profiles are found: the user's folder first, then the bundled zoo."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import overload

from gpuyard.core.errors import InputError, nearest
from gpuyard.profiles.gpus import GpuKind, find_gpu
from gpuyard.profiles.names import SIGNATURES, bundled_step_models, canonical
from gpuyard.profiles.reading import bundled_yaml, load_yaml, read_text
from gpuyard.profiles.step_files import dump_steps, parse_steps, steps_of, write_whole
from gpuyard.profiles.steps import StepProfile


def user_folder() -> Path:
    """Return the folder of the user's own step profiles."""
    named = os.environ.get("GPUYARD_PROFILES")
    return Path(named).expanduser() if named else Path.home() / ".local" / "share" / "gpuyard" / "profiles"


def step_models() -> tuple[str, ...]:
    """Return the name of every model with a step profile, the bundled ones first."""
    return tuple(dict.fromkeys([*bundled_step_models(), *(profile.model for profile in user_profiles())]))


@overload
def find_step_profile(gpu: GpuKind | str, model: str, *, precision: str = "fp32") -> StepProfile: ...


@overload
def find_step_profile(gpu: GpuKind | str, *, signature: str, precision: str = "fp32") -> StepProfile | None: ...


def find_step_profile(
    gpu: GpuKind | str, model: str | None = None, *, signature: str | None = None, precision: str = "fp32"
) -> StepProfile | None:
    """Return the profile of a model on a GPU kind.

    A name that has no profile is an InputError. A signature that has none is not: most models are not in any zoo.
    """
    key = gpu.key if isinstance(gpu, GpuKind) else _key(gpu)
    name = model if model is not None else bundled_yaml(SIGNATURES).get(signature)
    candidates = [
        *(own for own in user_profiles() if _same(own.model, name) or (signature and signature in own.signatures)),
        *(bundled_profiles(name) if name is not None else ()),
    ]
    for profile in candidates:
        if (profile.gpu, profile.precision) == (key, precision):
            return profile
    if model is None:
        return None
    raise _missing(model, key, precision, candidates)


def profiles_of(model: str) -> tuple[StepProfile, ...]:
    """Return every step profile of a model; where the user has one, the bundled one is left out."""
    found = [profile for profile in user_profiles() if _same(profile.model, model)]
    own = {(profile.gpu, profile.precision) for profile in found}
    return (*found, *(profile for profile in bundled_profiles(model) if (profile.gpu, profile.precision) not in own))


def import_profile(path: Path) -> tuple[Path, ...]:
    """Check a profile file and copy its step times to the user's folder, a file for each GPU; returns these files."""
    targets = []
    for profile in _steps_in(read_text(path, "step profile file"), str(path)):
        target = user_folder() / f"{profile.model}@{profile.gpu}-{profile.precision}.yaml"
        write_whole(target, dump_steps([profile]))
        targets.append(target)
    return tuple(targets)


def _steps_in(text: str, file: str) -> tuple[StepProfile, ...]:
    """Return the step profiles of a step profile file, or of a profile file with all parts of several models."""
    content = load_yaml(text, file)
    if not isinstance(content, dict) or "models" not in content:
        return parse_steps(text, file)
    from gpuyard.profiles.files import parse

    steps = tuple(steps for profile in parse(text, file).profiles.values() for steps in profile.steps)
    if not steps:
        raise InputError(
            "has no steps to import", file=file, field="models", hint="Throughputs are read where they are"
        )
    return steps


def user_profiles() -> Iterator[StepProfile]:
    """Yield every profile in the user's folder, by file name."""
    folder = user_folder()
    for path in sorted(folder.glob("*.yaml")) if folder.is_dir() else ():
        yield from _read_own(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _read_own(path: Path, changed: int) -> tuple[StepProfile, ...]:  # noqa: ARG001  a changed file is read again
    return parse_steps(read_text(path, "step profile file"), str(path))


def bundled_profiles(model: str) -> tuple[StepProfile, ...]:
    """Return the bundled profiles of a model, under any of its names; none if there are none."""
    name = next((name for name in bundled_step_models() if _same(name, model)), None)
    return () if name is None else _read_bundled(name)


@lru_cache(maxsize=64)
def _read_bundled(name: str) -> tuple[StepProfile, ...]:
    return steps_of(bundled_yaml("steps", f"{name}.yaml"))


def _same(one: str, other: str | None) -> bool:
    return other is not None and canonical(one) == canonical(other)


def _key(gpu: str) -> str:
    """Return the key of a known kind; a name that gpuyard does not know may still have a profile of the user's own."""
    own = {profile.gpu for profile in user_profiles()}
    return gpu if gpu in own else find_gpu(gpu).key


def _missing(model: str, key: str, precision: str, candidates: list[StepProfile]) -> InputError:
    if not candidates:
        return InputError("has no step profile", field="model", value=model, hint=nearest(model, step_models()))
    has = sorted({f"{profile.gpu} in {profile.precision}" for profile in candidates})
    return InputError(
        f"has no step profile on {key} in {precision}", field="model", value=model, hint=f"It has: {', '.join(has)}"
    )
