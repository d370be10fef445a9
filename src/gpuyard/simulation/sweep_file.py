"""A YAML file of axes and fixed settings, and the points that it spans."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import yaml

from gpuyard._version import __version__
from gpuyard.core.errors import InputError, nearest
from gpuyard.results import is_run
from gpuyard.simulation.options import Options, make_options, option_fields

FILES = ("workload", "cluster", "failures", "policy", "profiles")
"""Settings that may name files; their content, not the name, tells whether a finished run can be used again."""

MOST_RUNS = 100_000


@dataclass(frozen=True)
class _SweepFile:
    """What a sweep file says."""

    axes: dict[str, list[Any]]
    fixed: dict[str, Any]


@dataclass(frozen=True)
class Point:
    """One combination: where it stands on each axis, its options, and the folder of its run."""

    axes: dict[str, Any]
    options: Options
    folder: Path

    @property
    def done(self) -> bool:
        """Whether its run is there, whole."""
        return is_run(self.folder)

    def row(self, summary: dict[str, Any]) -> dict[str, Any]:
        """Return its line of the result table: the axes, then the figures by name, whether fresh or read again."""
        figures = {name: summary[name] for name in sorted(summary) if name not in self.axes}
        return {name: _cell(value) for name, value in self.axes.items()} | figures


def read_sweep(path: Path, out: Path) -> list[Point]:
    """Read a sweep file and return its points; InputError names file, field, value and rule."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=path) from None
    except yaml.YAMLError as error:
        raise InputError(f"is not YAML: {error}", file=path) from None
    except RecursionError:
        raise InputError("is nested too deeply", file=path) from None
    spec = _parts(content, path)
    _check_names(spec, path)
    points = [_point(dict(zip(spec.axes, values, strict=True)), spec.fixed, path, out)
              for values in product(*spec.axes.values())]  # fmt: skip
    return list({point.folder: point for point in points}.values())


def _parts(content: Any, path: Path) -> _SweepFile:
    if not isinstance(content, dict):
        raise InputError("must have axes, and may have fixed settings", file=path, value=content)
    for name in content:
        if name not in ("axes", "fixed"):
            raise InputError("is not a part of a sweep, which has axes and fixed", file=path, value=name)
    axes, fixed = content.get("axes"), content.get("fixed") or {}
    if not isinstance(axes, dict) or not axes:
        raise InputError("must name at least one setting with a list of values", file=path, field="axes", value=axes)
    for name, listed in axes.items():
        if not isinstance(listed, list) or not listed:
            raise InputError("must be a list with at least one value", file=path, field=f"axes.{name}", value=listed)
        for value in listed:
            if isinstance(value, dict):
                hint = "Write it as text, as on the command line: 'vision=16,speech=8'"
                rule = "is a mapping, and a point of an axis is one value"
                raise InputError(rule, file=path, field=f"axes.{name}", value=value, hint=hint)
    if (runs := prod(map(len, axes.values()))) > MOST_RUNS:
        raise InputError(f"combinations are more than a sweep makes: {MOST_RUNS} at most", file=path, value=runs)
    if not isinstance(fixed, dict):
        raise InputError("must be settings with their values", file=path, field="fixed", value=fixed)
    return _SweepFile(axes, fixed)


def _check_names(spec: _SweepFile, path: Path) -> None:
    for part, names in (("axes", spec.axes), ("fixed", spec.fixed)):
        for name in names:
            if name not in option_fields():
                hint = nearest(str(name), option_fields())
                raise InputError("is not a setting", file=path, field=part, value=name, hint=hint)
            if part == "fixed" and name in spec.axes:
                raise InputError("is an axis too; keep one of the two", file=path, field="fixed", value=name)


def _point(axes: dict[str, Any], fixed: dict[str, Any], path: Path, out: Path) -> Point:
    values = fixed | axes
    for name in FILES:
        found = values.get(name)
        if isinstance(found, str):
            values[name] = _beside(path, found)
        elif isinstance(found, list):
            values[name] = [_beside(path, str(each)) for each in found]
    options = make_options(values, file=path)
    return Point(axes, options, out / folder_name(axes, options))


def _beside(path: Path, name: str) -> str:
    """Look for a file beside the sweep file first: the two travel together."""
    beside = path.parent / name
    return str(beside) if beside.is_file() or beside.with_name(beside.name.split(":")[0]).is_file() else name


def folder_name(axes: dict[str, Any], options: Options) -> str:
    """Derive a folder from the inputs and the version: readable first, then a hash of all that matters."""
    inputs = asdict(options)
    named = {name: [inputs[name]] if isinstance(inputs[name], str) else inputs[name] or () for name in FILES}
    digests = {name: [_digest(each) for each in texts if isinstance(each, str)] for name, texts in named.items()}
    identity = json.dumps([__version__, inputs, digests], sort_keys=True)
    code = hashlib.sha256(identity.encode()).hexdigest()[:12]
    words = [
        Path(str(_cell(axes[name]))).name
        if name in FILES
        else f"{name}{_cell(getattr(options, option_fields()[name]))}"
        for name in axes
    ]
    return re.sub(r"[^\w+.=-]+", "_", "-".join(words))[:80].lstrip(".") + f"-{code}"


def _digest(name: str) -> str | None:
    """Return a hash of the file a setting names, if it names one; a policy's class follows a colon."""
    for candidate in (Path(name), Path(name.rpartition(":")[0] or name)):
        if candidate.is_file():
            status = candidate.stat()
            return _file_digest(str(candidate), status.st_mtime_ns, status.st_size)
    return None


@lru_cache(maxsize=256)
def _file_digest(path: str, _changed: int, _size: int) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _cell(value: Any) -> Any:
    """Return a value of an axis as one cell of a table."""
    if isinstance(value, (list, tuple)):
        return ",".join(str(_cell(item)) for item in value)
    return int(value) if isinstance(value, float) and value.is_integer() else value
