"""The zoo: every profile gpuyard knows, bundled or given by the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from gpuyard.core.errors import InputError, nearest
from gpuyard.profiles.files import Content, content_of, parse
from gpuyard.profiles.gpu_speed import GpuSpeed
from gpuyard.profiles.model import ModelProfile
from gpuyard.profiles.names import THROUGHPUTS, NameIndex, canonical
from gpuyard.profiles.published import PublishedScalars
from gpuyard.profiles.reading import bundled_yaml, read_text
from gpuyard.profiles.serving_files import data_sheet_mb
from gpuyard.profiles.serving_parts import GpuSharing, Interference
from gpuyard.profiles.serving_store import bundled_serving, bundled_sharing
from gpuyard.profiles.step_store import profiles_of, step_models
from gpuyard.profiles.steps import StepProfile

GENERIC = "generic"
"""The model of jobs that nobody measured."""

FIRST_RATIO = 3
"""The CPU:GPU ratio whose published table stands in for ratios without one."""


@dataclass(frozen=True, eq=False)
class Zoo:
    """Profiles by name."""

    profiles: Mapping[str, ModelProfile]
    """Of the models that came in profile files."""
    default_names: tuple[str, ...]
    """The models that generated workloads draw from, in the order of their ids."""
    tables: Mapping[str, Mapping[int, PublishedScalars]]
    """Published scalars by model and CPU:GPU ratio."""
    stated_gpus: Mapping[str, GpuSharing] = field(default_factory=dict)
    """GPU kinds that models share, as the user's own files describe them."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The models that can be simulated, in the order they were read."""
        return tuple(name for name, profile in self.profiles.items() if profile.has_throughput)

    @property
    def models(self) -> tuple[str, ...]:
        """Every model that anything is known of, those that can be simulated first."""
        return tuple(dict.fromkeys([*self.names, *self.profiles, *self._others]))

    @property
    def by_class(self) -> dict[str, tuple[str, ...]]:
        """The default models of each task, in the order of their ids."""
        tasks = dict.fromkeys(self.profiles[name].task for name in self.default_names)
        return {task: tuple(name for name in self.default_names if self.profiles[name].task == task) for task in tasks}

    def key_of(self, name: str) -> str | None:
        """Return the key of a model that came in a profile file, by any of its names; None if there is none."""
        return self._index.find(name)

    def stand_in(self, name: str) -> str | None:
        """Return the model to simulate for a name in a public trace: itself, or the one that stands for it."""
        for index in (self._index, self._stand_ins):
            found = index.find(name)
            if found is not None and self.profiles[found].has_throughput:
                return found
        return None

    def knows(self, name: str) -> bool:
        """Return whether anything is known of a model, by any of its names."""
        return self._find(name) is not None

    def profile(self, name: str) -> ModelProfile:
        """Return a model's profile, by any of its names."""
        found = self._find(name)
        if found is None:
            raise InputError(
                "is not a model gpuyard has a profile of", field="model", value=name, hint=nearest(name, self.names)
            )
        return found

    def _find(self, name: str) -> ModelProfile | None:
        key = self.key_of(name)
        if key is not None:
            return self.profiles[key]
        key = self._other_index.find(name)
        return None if key is None else self._others[key]

    def served_as(self, name: str) -> str:
        """Return a model's name in plans of slices, by any of its names; the name itself if nothing is known of it."""
        return self.profile(name).served_as if self.knows(name) else name

    def steps(self, name: str) -> tuple[StepProfile, ...]:
        """Return a model's step profiles: those of its profile file, the user's folder and the bundled ones."""
        profile = self.profile(name)
        own = {(steps.gpu, steps.precision) for steps in profile.steps}
        others = profiles_of(profile.name)
        return (*profile.steps, *(steps for steps in others if (steps.gpu, steps.precision) not in own))

    def gpu_speed(self, name: str, gpu_type: str) -> GpuSpeed:
        """Return how much faster a model is on a GPU type than on that of its profile, and how that is known."""
        return self.profile(name).speed_on(gpu_type)

    def gpu_sharing(self, key: str) -> tuple[float, Interference]:
        """Return a GPU kind's memory, in MB, and what neighbours do there: nothing, where nobody has measured it."""
        known = [each[key] for each in (self.stated_gpus, bundled_sharing()) if key in each]
        memory_mb = next((each.memory_mb for each in known if each.memory_mb is not None), None)
        interference = next((each.interference for each in known if each.interference is not None), Interference())
        return data_sheet_mb(key) if memory_mb is None else memory_mb, interference

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

    @cached_property
    def _index(self) -> NameIndex:
        return NameIndex({name: profile.aliases for name, profile in self.profiles.items()})

    @cached_property
    def _stand_ins(self) -> NameIndex:
        return NameIndex({name: profile.stands_for for name, profile in self.profiles.items()})

    @cached_property
    def _others(self) -> Mapping[str, ModelProfile]:
        """Models that came in no such file: of which only step times or latencies are known; read when asked for."""
        served = bundled_serving()
        keys = dict.fromkeys([*map(canonical, step_models()), *served])
        return {
            key: ModelProfile(name=key, title=key, aliases=served[key].aliases if key in served else ())
            for key in keys if self._index.find(key) is None
        }  # fmt: skip

    @cached_property
    def _other_index(self) -> NameIndex:
        return NameIndex({name: profile.aliases for name, profile in self._others.items()})


def load_zoo(extra: Sequence[Path | str] = ()) -> Zoo:
    """Return the bundled profiles together with those in the user's own profile files."""
    bundled = content_of(bundled_yaml(THROUGHPUTS), THROUGHPUTS)
    zoo = Zoo({GENERIC: _generic()} | bundled.profiles, bundled.defaults, bundled.tables)
    for path in extra:
        zoo = _joined(zoo, parse(read_text(Path(path), "profile file"), str(path)), str(path))
    return zoo


def _joined(zoo: Zoo, content: Content, file: str) -> Zoo:
    """Return a zoo with the models of one more file."""
    for name, profile in content.profiles.items():
        own = _replacing(zoo, profile, file) if name in content.replaced else _new(zoo, profile, file)
        tables = {model: table for model, table in zoo.tables.items() if model != own.name}
        tables |= {own.name: content.tables[name]} if name in content.tables else {}
        zoo = replace(zoo, profiles={**zoo.profiles, own.name: own}, tables=tables)
    defaults = (zoo.profile(name).name for name in content.defaults)
    names = tuple(dict.fromkeys([*zoo.default_names, *defaults]))
    return replace(zoo, default_names=names, stated_gpus={**zoo.stated_gpus, **content.gpus})


def _new(zoo: Zoo, profile: ModelProfile, file: str) -> ModelProfile:
    """Return a profile if none of its names is taken."""
    for name in (profile.name, *profile.aliases):
        taken = zoo.key_of(name)
        if taken is not None:
            raise InputError(
                f"already has a profile{'' if taken == name else f', as {taken!r}'}", file=file, field="models",
                value=name, hint="Give it another name, or say 'replace: true'",
            )  # fmt: skip
    return profile


def _replacing(zoo: Zoo, profile: ModelProfile, file: str) -> ModelProfile:
    """Return a profile under all names of the one whose place it takes."""
    taken = zoo.key_of(profile.name)
    if taken is None:
        raise InputError(
            "replaces no model that gpuyard has a profile of", file=file, field="models", value=profile.name,
            hint=nearest(profile.name, zoo.names) + " Leave out 'replace' for a new model",
        )  # fmt: skip
    names = dict.fromkeys([*zoo.profiles[taken].aliases, profile.name, *profile.aliases])
    return replace(profile, name=taken, aliases=tuple(name for name in names if name != taken))


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
