"""The GPU kinds that gpuyard knows, by any of their names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from gpuyard.core.errors import InputError, nearest
from gpuyard.core.gpus import GpuKind, folded

__all__ = ["MOST_GPUS", "GpuKind", "find_gpu", "gpu_key", "gpu_kind", "gpu_kinds", "parse_gpus"]

MOST_GPUS = 16
"""The most GPUs that one emulated machine has."""


@lru_cache(maxsize=1)
def gpu_kinds() -> tuple[GpuKind, ...]:
    """Return every bundled GPU kind, those with measured step times first."""
    from gpuyard.profiles.gpu_files import bundled_kinds

    return bundled_kinds()


def find_gpu(name: str) -> GpuKind:
    """Return the GPU kind of this name (key, full name or alias, in any spelling), or the one in a YAML file."""
    found = _by_name().get(folded(name))
    if found is not None:
        return found
    if name.endswith((".yaml", ".yml")):
        from gpuyard.profiles.gpu_files import read_kind

        return read_kind(Path(name))
    raise InputError(
        "is not a GPU kind gpuyard knows",
        field="gpu",
        value=name,
        hint=nearest(name, [kind.key.lower() for kind in gpu_kinds()])
        + " A path to a YAML file of your own works too (docs/profiles.md)",
    )


def gpu_kind(name: str) -> GpuKind:
    """Return the GPU kind of a node of this type; one that is only a name if gpuyard does not know it."""
    return _by_name().get(folded(name)) or GpuKind.named(name)


def gpu_key(name: str) -> str:
    """Return the one key under which a GPU type is known everywhere; an unknown name as it is."""
    return gpu_kind(name).key


@lru_cache(maxsize=1)
def _by_name() -> Mapping[str, GpuKind]:
    return {folded(name): kind for kind in gpu_kinds() for name in (kind.key, kind.name, *kind.aliases)}


def parse_gpus(text: str) -> tuple[GpuKind, ...]:
    """Read the GPUs of a machine: "A100", "4xA100", "2xV100+1xK80"."""
    groups = parse_groups(text)
    total = sum(count for count, _ in groups)
    if total > MOST_GPUS:
        raise _bad_gpus(f"names {total} GPUs, but a machine has at most {MOST_GPUS}", text)
    return tuple(kind for count, name in groups for kind in [find_gpu(name)] * count)


def parse_groups(text: str) -> list[tuple[int, str]]:
    """Read how many GPUs of which name there are: "4x2080ti", "2xV100+1xK80" or "2xV100,1xK80"."""
    return [_group(part.strip(), text) for part in re.split("[+,]", text)]


def _group(part: str, text: str) -> tuple[int, str]:
    """Split one group of equal GPUs into their number, 1 if there is none, and their name."""
    counted = re.match(r"(\d{1,9})\s*[x×]\s*", part, flags=re.IGNORECASE)
    name = part[counted.end() :] if counted else part
    if not name:
        raise _bad_gpus("lacks the name of a GPU kind", text)
    count = int(counted.group(1)) if counted else 1
    if count == 0:
        raise _bad_gpus(f"asks for no {name} at all", text)
    return count, name


def _bad_gpus(rule: str, text: str) -> InputError:
    return InputError(rule, field="gpus", value=text, hint="Examples: A100, 4xA100, 2xV100+1xK80")
