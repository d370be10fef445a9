"""What a run says about the speeds that it stands on: GPU types of which nobody knows anything, and estimates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import closest
from gpuyard.core.workload import Workload
from gpuyard.policies.feasibility import type_masks
from gpuyard.profiles import GENERIC, ModelProfile, Zoo, gpu_key, gpu_kind, gpu_kinds

MOST_NAMED = 3
"""Models, or GPU types, that a note names; of more it says how many there are."""


def speed_notes(workload: Workload, cluster: Cluster, zoo: Zoo, recorded_on: str | None = None) -> list[str]:
    """What a reader of these jobs' times on this cluster should know; nothing where all speeds were measured."""
    unknown: dict[str, set[str]] = defaultdict(set)
    estimated: dict[str, set[str]] = defaultdict(set)
    models: set[str] = set()
    for profile, gpu_type in _pairs(workload, cluster, zoo, recorded_on):
        models.add(profile.name)
        origin = profile.speed_on(gpu_type).origin
        if origin == "unknown":
            for each in (gpu_type, profile.gpu_type):
                if not gpu_kind(each).has_data_sheet:
                    unknown[each].add(profile.name)
        elif origin == "estimated":
            estimated[gpu_type].add(profile.name)
    notes = [_unknown(each, unknown[each]) for each in sorted(unknown)]
    return notes + ([_estimates(estimated, len(models))] if estimated else [])


def _pairs(
    workload: Workload, cluster: Cluster, zoo: Zoo, recorded_on: str | None
) -> Iterator[tuple[ModelProfile, str]]:
    """Every model with every GPU type whose speed matters to one of its jobs."""
    recorded = np.isnan(workload.iterations)
    code = (workload.model.astype(np.int64) * len(workload.gpu_types) + workload.gpu_type) * 2 + recorded
    _, first = np.unique(code, return_index=True)
    some = workload.take(first)
    types = [gpu_key(each) for each in cluster.gpu_types]
    found: dict[tuple[str, str], ModelProfile] = {}
    for number, mask in enumerate(type_masks(some, cluster).tolist()):
        profile = zoo.profile(some.models[some.model[number]])
        concerned = [each for t, each in enumerate(types) if mask >> t & 1]
        if recorded[first[number]]:
            concerned += [gpu_key(recorded_on)] if recorded_on else []
            if profile.name == GENERIC and len(set(concerned)) == 1:
                continue  # its time is the recorded one, however fast that GPU is
        found.update({(profile.name, each): profile for each in concerned})
    return ((profile, each) for (_, each), profile in found.items())


def _unknown(gpu_type: str, models: set[str]) -> str:
    said = f"of GPU type {gpu_type} only the name is known: {_some(models, 'models')} count as fast there as elsewhere"
    hint = closest(gpu_type, [kind.key for kind in gpu_kinds()])
    return f"{said}. {hint or 'A profile file can state its gpu_speed'}"


def _estimates(estimated: Mapping[str, set[str]], models: int) -> str:
    types = sorted(estimated)
    told = [f"of {_some(estimated[each], f'of {models} models')} on {each}" for each in types[:MOST_NAMED]]
    more = len(types) - MOST_NAMED
    told += [f"on {more} further GPU type{'s' if more > 1 else ''}"] if more > 0 else []
    return f"estimated and not measured: the speeds {', '.join(told)} (gpuyard profiles show MODEL)"


def _some(names: set[str], rest: str) -> str:
    """A few names, or how many there are."""
    return ", ".join(sorted(names)) if len(names) <= MOST_NAMED else f"{len(names)} {rest}"
