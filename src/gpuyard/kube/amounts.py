"""CPUs, memory and times as Kubernetes writes them, in pods and nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

_SUFFIXES = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_SUFFIXES |= {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60}


class BesideGpus(NamedTuple):
    """What goes with GPUs."""

    cpus: float = 0.0
    memory_gb: float = 0.0

    def plus(self, other: BesideGpus) -> BesideGpus:
        """Both together."""
        return BesideGpus(self.cpus + other.cpus, self.memory_gb + other.memory_gb)

    def times(self, part: float) -> BesideGpus:
        """So much of it."""
        return BesideGpus(self.cpus * part, self.memory_gb * part)

    def beyond(self, other: BesideGpus) -> BesideGpus:
        """What is left of it without the other; nothing where that is more."""
        return BesideGpus(max(self.cpus - other.cpus, 0.0), max(self.memory_gb - other.memory_gb, 0.0))

    def at_most(self, other: BesideGpus) -> BesideGpus:
        """The smaller of both, one by one."""
        return BesideGpus(min(self.cpus, other.cpus), min(self.memory_gb, other.memory_gb))


def quantity(written: Any) -> float:
    """A quantity; 0 where it is nonsense, as an API server would not have let it in."""
    found = re.fullmatch(r"(\d{1,18}(?:\.\d{0,9})?)(e\d{1,2}|[numkMGTPE]|[KMGTPE]i|)", str(written))
    if found is None:
        return 0.0
    number, suffix = float(found[1]), found[2]
    return number * (10.0 ** int(suffix[1:]) if suffix.startswith("e") else _SUFFIXES[suffix])


def node_amounts(node: Mapping[str, Any]) -> BesideGpus | None:
    """What pods can have of a node; None where it does not say."""
    found = (node.get("status") or {}).get("allocatable") or {}
    return _read(found) if "cpu" in found and "memory" in found else None


def pod_amounts(pod: Mapping[str, Any]) -> BesideGpus:
    """What a pod has reserved: its containers together, or one that initialises if that is more, and its overhead."""
    spec = pod.get("spec") or {}
    together, first = BesideGpus(), BesideGpus()
    for each in spec.get("containers") or ():
        together = together.plus(_requested(each))
    for each in spec.get("initContainers") or ():
        asked = _requested(each)
        first = BesideGpus(max(first.cpus, asked.cpus), max(first.memory_gb, asked.memory_gb))
    most = BesideGpus(max(together.cpus, first.cpus), max(together.memory_gb, first.memory_gb))
    return most.plus(_read(spec.get("overhead") or {}))


def _requested(container: Mapping[str, Any]) -> BesideGpus:
    resources = container.get("resources") or {}
    return _read({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _read(found: Mapping[str, Any]) -> BesideGpus:
    return BesideGpus(quantity(found.get("cpu", 0)), quantity(found.get("memory", 0)) / 1e9)


def made_s(metadata: Mapping[str, Any]) -> float | None:
    """When an object was made, in seconds since 1970; None where it does not say."""
    try:
        written = metadata.get("creationTimestamp")
        return datetime.fromisoformat(str(written)).timestamp() if written else None
    except ValueError:
        return None


def moment(seconds: float) -> str:
    """Seconds since 1970 as Kubernetes writes them."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
