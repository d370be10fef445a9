"""Who keeps which CPUs and memory: pods cannot be given other amounts while they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuyard.core.grants import Grant, Part
from gpuyard.kube.amounts import BesideGpus

SLACK = 1e-6


def without_resizes(
    planned: tuple[Grant, ...], had: Mapping[Any, Grant], free: Mapping[str, BesideGpus]
) -> tuple[Grant, ...]:
    """The grants of a plan, where who stays keeps what its pods have; with less only if somebody lacks it who comes.

    `had` are the grants before, by holder; `free` is what nobody has on each node once all that these holders had is
    taken back.
    """
    chosen = {each.holder: _kept(each, had.get(each.holder)) for each in planned}
    for gives in (True, False):  # whoever was to have more asks for less if it keeps what it has: it comes last
        for each in planned:
            short = _short(chosen.values(), free)
            if short & set(each.nodes) and (not gives or _is_less(each, chosen[each.holder])):
                chosen[each.holder] = each
    return planned if _short(chosen.values(), free) else tuple(chosen.values())


def _kept(planned: Grant, had: Grant | None) -> Grant:
    stays = had is not None and _gpus(had) == _gpus(planned)
    return had if had is not None and stays else planned


def _gpus(grant: Grant) -> list[tuple[str, int | None]]:
    return [(part.node, part.gpu) for part in grant.parts]


def _is_less(one: Grant, other: Grant) -> bool:
    return any(
        _of(a).cpus < _of(b).cpus or _of(a).memory_gb < _of(b).memory_gb
        for a, b in zip(one.parts, other.parts, strict=True)
    )


def _of(part: Part) -> BesideGpus:
    return BesideGpus(part.amounts.get("cpus", 0.0), part.amounts.get("memory_gb", 0.0))


def on_nodes(grants: Iterable[Grant]) -> dict[str, BesideGpus]:
    """What all of these hold, by node."""
    taken: dict[str, BesideGpus] = {}
    for part in (part for grant in grants for part in grant.parts):
        taken[part.node] = taken.get(part.node, BesideGpus()).plus(_of(part))
    return taken


def _short(grants: Iterable[Grant], free: Mapping[str, BesideGpus]) -> set[str]:
    """The nodes on which these do not all fit."""
    return {
        node
        for node, taken in on_nodes(grants).items()
        if taken.cpus > free[node].cpus + SLACK or taken.memory_gb > free[node].memory_gb + SLACK
    }
