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
    kept = {each.holder: _kept(each, had.get(each.holder)) for each in planned}
    given = [each for each in planned if kept[each.holder] is not each]
    fits = _Fit(free)
    for grant in kept.values():
        fits.add(grant)
    least = sorted(given, key=lambda each: not _is_less(each, kept[each.holder]))
    for each in least:  # whoever was to have more asks for less if it keeps what it has: it comes last
        if fits.short & set(each.nodes):
            fits.swap(kept[each.holder], each)
            kept[each.holder] = each
    if fits.short:
        return planned
    for each in given:  # somebody behind may have given enough for all: who is first in the order keeps what it has
        before = had[each.holder]
        if kept[each.holder] is each:
            fits.swap(each, before)
            kept[each.holder] = before
            if fits.short:
                fits.swap(before, each)
                kept[each.holder] = each
    return tuple(kept.values())


class _Fit:
    """What grants take of each node, and where that is more than there is."""

    def __init__(self, free: Mapping[str, BesideGpus]) -> None:
        self._left = dict(free)
        self.short: set[str] = set()
        """The nodes on which they do not all fit."""

    def add(self, grant: Grant) -> None:
        """One more."""
        self._change(grant, 1)

    def swap(self, one: Grant, other: Grant) -> None:
        """The other instead of the one."""
        self._change(one, -1)
        self._change(other, 1)

    def _change(self, grant: Grant, sign: int) -> None:
        for node, taken in on_nodes([grant]).items():
            left = self._left[node]
            left = BesideGpus(left.cpus - sign * taken.cpus, left.memory_gb - sign * taken.memory_gb)
            self._left[node] = left
            (self.short.add if min(left.cpus, left.memory_gb) < -SLACK else self.short.discard)(node)


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
