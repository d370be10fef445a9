"""The zoo: every profile gpuyard knows, bundled or given by the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from gpuyard.core.errors import InputError, nearest
from gpuyard.profiles.files import parse
from gpuyard.profiles.model import ModelProfile
from gpuyard.profiles.published import PublishedScalars
from gpuyard.profiles.reading import read_text

GENERIC = "generic"
"""The model of jobs that nobody measured."""

BUNDLED = "synergy.yaml"

FIRST_RATIO = 3
"""The CPU:GPU ratio whose published table stands in for ratios without one."""


@dataclass(frozen=True, eq=False)
class Zoo:
    """Profiles by name."""

    profiles: Mapping[str, ModelProfile]
    default_names: tuple[str, ...]
    """The models that generated workloads draw from, in the order of their ids."""
    tables: Mapping[str, Mapping[int, PublishedScalars]]
    """Published scalars by model and CPU:GPU ratio."""

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in the order they were read."""
        return tuple(self.profiles)

    @property
    def by_class(self) -> dict[str, tuple[str, ...]]:
        """The default models of each task, in the order of their ids."""
        tasks = dict.fromkeys(self.profiles[name].task for name in self.default_names)
        return {task: tuple(name for name in self.default_names if self.profiles[name].task == task) for task in tasks}

    def profile(self, name: str) -> ModelProfile:
        """Return a model's profile."""
        if name not in self.profiles:
            raise InputError(
                "is not a model gpuyard has a profile of", field="model", value=name, hint=nearest(name, self.names)
            )
        return self.profiles[name]

    def published(self, name: str, ratio: float) -> PublishedScalars:
        """Return the scalars published for a CPU:GPU ratio; those of ratio 3 where there are none."""
        table = self.tables.get(self.profile(name).name)
        if not table:
            raise InputError(
                "has a profile but no published scalars",
                field="model",
                value=name,
                hint=f"Models with scalars: {', '.join(self.tables)}",
            )
        return table.get(int(ratio) if ratio == int(ratio) else FIRST_RATIO, table[FIRST_RATIO])


def load_zoo(extra: Sequence[Path] = ()) -> Zoo:
    """Return the bundled profiles together with those in the user's own profile files."""
    profiles = {GENERIC: _generic()}
    defaults: list[str] = []
    tables: dict[str, Mapping[int, PublishedScalars]] = {}
    bundled = files("gpuyard.profiles").joinpath("zoo", BUNDLED).read_text(encoding="utf-8")
    contents = [(BUNDLED, parse(bundled, BUNDLED, bundled=True))]
    contents += [(str(path), parse(read_text(path, "profile file"), str(path))) for path in extra]
    for file, content in contents:
        for name, profile in content.profiles.items():
            if name in profiles:
                raise InputError(
                    "already has a profile", file=file, field="models", value=name, hint="Give it another name"
                )
            profiles[name] = profile
        defaults += content.defaults
        tables |= content.tables
    return Zoo(profiles, tuple(defaults), tables)


def _generic() -> ModelProfile:
    """Return a profile that claims nothing: full speed on the smallest share that was ever measured."""
    return ModelProfile(
        name=GENERIC,
        title="Unmeasured model",
        task="other",
        batch=1,
        iteration_s=1.0,
        cpu_grid=np.array([1.0]),
        memory_grid=np.array([20.83]),
        throughput=np.ones((1, 1)),
        storage_mbps=0.0,
        spread_penalty=1.0,
        source="gpuyard",
    )
