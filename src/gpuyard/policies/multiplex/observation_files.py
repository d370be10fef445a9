"""What was measured of mixes, as a JSON file: what a scheduler has learnt survives it, and can be taken elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, model_validator

from gpuyard.policies.multiplex.interference import (
    MOST_SLOWDOWN,
    InterferenceModel,
    Observation,
    Usage,
    is_slowdown,
)
from gpuyard.profiles.checking import NotNegative, Positive, Strict, check
from gpuyard.profiles.json_files import of_version, read_json
from gpuyard.profiles.step_files import write_whole

VERSION = "interference/1"
WHAT = "file of interference"

_Part = Annotated[float, Field(ge=0, le=1)]


class _Exact(Strict):
    """A part in which true is no number, nor is a text."""

    model_config = ConfigDict(strict=True)


class _Usage(_Exact):
    model: Annotated[str, Field(min_length=1)]
    compute: _Part
    bandwidth: _Part
    batch: Positive = 1.0


class ObservationRecord(_Exact):
    """One observation as files have it."""

    mix: Annotated[list[_Usage], Field(min_length=2)]
    measured: Annotated[list[int], Field(min_length=1)]
    slowdown: Annotated[float, Field(allow_inf_nan=False)]
    error: NotNegative = 0.0
    gpu: str = ""

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if len(set(self.measured)) != len(self.measured) or not set(self.measured) <= set(range(len(self.mix))):
            raise ValueError(f"measured must be different positions in the mix, 0 to {len(self.mix) - 1}")
        if not is_slowdown(self.slowdown, len(self.measured)):
            rule = f"slowdown must be a sum of slowdowns, each from -1 to {MOST_SLOWDOWN:g}: {self.slowdown:g} is none"
            raise ValueError(rule)
        return self


class _File(Strict):
    gpuyard: str
    observations: list[ObservationRecord]


def write_observations(model: InterferenceModel, path: Path) -> None:
    """Write all that a model was told; the file appears whole or not at all."""
    write_whole(path, observations_text(model))


def observations_text(model: InterferenceModel) -> str:
    """What such a file says."""
    content = {"gpuyard": VERSION, "observations": observation_records(model)}
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def observation_records(model: InterferenceModel) -> list[dict[str, Any]]:
    """All that a model was told, as files have it."""
    return [
        {
            "mix": [each._asdict() for each in one.mix],
            "measured": list(one.measured),
            "slowdown": one.slowdown,
            "error": one.error,
            "gpu": one.gpu,
        }
        for one in model.observations
    ]


def model_of(records: Iterable[ObservationRecord]) -> InterferenceModel:
    """A model that was told these."""
    return InterferenceModel(tuple(_observation(each) for each in records))


def read_observations(path: Path) -> InterferenceModel:
    """Return a model that knows what a file says; InputError names file, field, value and rule."""
    return model_of(check(_File, read_json(path, VERSION, WHAT), path, WHAT).observations)


def parse_observations(text: str, file: object) -> InterferenceModel:
    """The same of the text of such a file; `file` says in words where it is from."""
    return model_of(check(_File, of_version(text, file, WHAT, VERSION), file, WHAT).observations)


def _observation(record: ObservationRecord) -> Observation:
    mix = tuple(Usage(each.model, each.compute, each.bandwidth, each.batch) for each in record.mix)
    return Observation(mix, tuple(record.measured), record.slowdown, record.error, record.gpu)
