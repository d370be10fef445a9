"""One key for each model, and the other names it is found under."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from gpuyard.core.gpus import folded
from gpuyard.profiles.reading import bundled_yaml

THROUGHPUTS = "synergy.yaml"
SIGNATURES = "signatures.yaml"
INFERENCE = "inference.yaml"


class NameIndex:
    """Finds a key by itself, by an alias, or by either in another spelling: ResNet-50, resnet_50."""

    def __init__(self, names: Mapping[str, Iterable[str]]) -> None:
        exact = {name: key for key, aliases in names.items() for name in (*aliases, key)}
        self._keys = {folded(name): key for name, key in exact.items()} | exact

    def find(self, name: str) -> str | None:
        """Return the key of a name, None if there is none."""
        return self._keys.get(name) or self._keys.get(folded(name))


def canonical(name: str) -> str:
    """Return the one key under which gpuyard keeps a bundled model; any other name as it is."""
    return _bundled_index().find(name) or name


def bundled_step_models() -> tuple[str, ...]:
    """Return the models with bundled step profiles, as their files are named."""
    return tuple(sorted(set(bundled_yaml(SIGNATURES).values())))


@lru_cache(maxsize=1)
def _bundled_index() -> NameIndex:
    named = _aliases(THROUGHPUTS)
    taken = {alias for aliases in named.values() for alias in aliases}
    others = dict.fromkeys(bundled_step_models(), ()) | _aliases(INFERENCE)
    return NameIndex({model: aliases for model, aliases in others.items() if model not in taken} | named)


def _aliases(file: str) -> dict[str, tuple[str, ...]]:
    return {key: tuple(model.get("aliases", ())) for key, model in bundled_yaml(file)["models"].items()}
