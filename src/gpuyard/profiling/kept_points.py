"""Measured points beside the profile that is being made, so that one that was interrupted goes on from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.profiles.json_files import read_json
from gpuyard.profiles.step_files import write_whole
from gpuyard.profiling.job import SYNTHETIC, MeasurePoint
from gpuyard.profiling.optimistic import Measurement

VERSION = "points/1"


@dataclass
class KeptPoints:
    """Points of one command, measured in one way."""

    path: Path
    settings: Mapping[str, Any]
    """What all of them must have in common."""
    points: dict[str, Measurement] = field(default_factory=dict)

    @classmethod
    def beside(cls, out: Path, settings: Mapping[str, Any], *, fresh: bool = False) -> KeptPoints:
        """Find those of an earlier call for the same file; none if they were measured in another way."""
        found = cls(out.with_name(out.name + ".points"), settings)
        if found.path.exists() and not fresh:
            content = read_json(found.path, VERSION, "file of measured points")
            if content.get("settings") == settings:
                found.points = _points(content.get("points"), found.path)
        return found

    def measuring(self, run: MeasurePoint) -> MeasurePoint:
        """Measure what is not there yet, and keep it at once."""

        def measure(cpus: int, *, synthetic: bool = False) -> Measurement:
            name = SYNTHETIC if synthetic else str(cpus)
            if name not in self.points:
                self.points[name] = run(cpus, synthetic=synthetic)
                self.save()
            return self.points[name]

        return measure

    def save(self) -> None:
        """Write them all."""
        points = {name: asdict(point) for name, point in self.points.items()}
        write_whole(self.path, json.dumps({"gpuyard": VERSION, "settings": self.settings, "points": points}))

    def remove(self) -> None:
        """Take them away, when the profile is written."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)


def _points(content: Any, file: Path) -> dict[str, Measurement]:
    try:
        points = {name: Measurement(**{**each, "step_s": tuple(each["step_s"])}) for name, each in content.items()}
        if all(each.typical_s > 0 and each.epoch_steps > 0 for each in points.values()):
            return points
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    raise InputError("is damaged", file=file, hint="--fresh measures all points again")
