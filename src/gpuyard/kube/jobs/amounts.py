"""CPUs and memory of nodes and pods, and who keeps what of them: pods cannot be given other amounts while they run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gpuyard.core.grants import Grant, Part
from gpuyard.kube.json_objects import JsonObject

SLACK = 1e-6
_SCALES = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    **{f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", 1)},
}  # fmt: skip


class BesideGpus(NamedTuple):
    """CPUs and GB of memory."""

    cpus: float = 0.0
    memory_gb: float = 0.0

    def plus(self, other: BesideGpus) -> BesideGpus:
        """Both together."""
        return BesideGpus(self.cpus + other.cpus, self.memory_gb + other.memory_gb)


def quantity(written: Any) -> float:
    """A quantity as Kubernetes writes it; 0 where none is written, or nonsense."""
    found = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,2})?)([numkMGTPE]|[KMGTPE]i|)", str(written))
    return float(found[1]) * _SCALES[found[2]] if found else 0.0


def amounts_of(resources: Mapping[str, Any] | None) -> BesideGpus:
    """What a mapping of resources says of CPUs and memory."""
    found = resources or {}
    return BesideGpus(quantity(found.get("cpu", 0)), quantity(found.get("memory", 0)) / 1e9)


def requests_of(pod_spec: JsonObject) -> BesideGpus:
    """What a pod takes of its node: all its containers together, or more while it is made ready."""
    together = _requests(pod_spec.get("containers"))
    first = [_request(each) for each in pod_spec.get("initContainers") or ()]
    most = BesideGpus(*(max([each, *others]) for each, *others in zip(together, *first, strict=True)))
    return most.plus(amounts_of(pod_spec.get("overhead")))


def _requests(containers: Any) -> BesideGpus:
    found = BesideGpus()
    for each in containers or ():
        found = found.plus(_request(each))
    return found


def _request(container: Mapping[str, Any]) -> BesideGpus:
    resources = container.get("resources") or {}
    return amounts_of({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


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
