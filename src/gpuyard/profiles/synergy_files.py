"""Files of Synergy's offline profiler: `profile.json`, and `PERF_<job>.txt` of a measured program.

`profile.json` is a list of three objects: seconds per iteration by CPUs; seconds per epoch by CPUs and by the
percentage of the data that is cached; storage MB/s by the same. The size of the data is in none of them, but follows:
with nothing cached an epoch reads all of it from the storage at the rate that is stated.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.profiles.throughput_part import throughput_part

PERCENTS = (*range(0, 100, 10), 100)
MB_PER_GB = 1024
"""As Synergy's profiler counts."""
LEAST_PART = 0.001
"""Of the data: where 'nothing cached' stands in a profile file, whose amounts are positive."""
_STAMP = re.compile(r"_\d\d-\w{3}-\d{4}-\(.*\)$")
_PERF = re.compile(r"PERF_(?P<job>.+?)(?:_cpu_(?P<cpus>\d+)(?:\.0)?)?\.txt")

CachedSpeeds = Mapping[int, Mapping[int, float]]
"""By CPUs, then by the percentage that is cached."""


@dataclass(frozen=True)
class SynergyProfile:
    """What `profile.json` says."""

    iteration_s: Mapping[int, float]
    epoch_s: CachedSpeeds
    storage_mbps: CachedSpeeds

    @property
    def data_gb(self) -> float:
        """Size of the data; 0 where nothing is read, or where it cannot be told."""
        cpus = next(iter(self.epoch_s))
        return self.epoch_s[cpus].get(0, 0.0) * self.storage_mbps[cpus].get(0, 0.0) / MB_PER_GB

    def entry(self) -> dict[str, Any]:
        """As one model of a profile file."""
        rows, data_gb = sorted(self.epoch_s), self.data_gb
        percents = sorted(self.epoch_s[rows[0]]) if data_gb else [100]
        memory = [max(percent / 100, LEAST_PART) * data_gb if data_gb else 1.0 for percent in percents]
        steps = {cpus: self.epoch_s[cpus][100] / self.iteration_s[cpus] for cpus in rows}
        step_s = [[self.epoch_s[cpus][percent] / steps[cpus] for percent in percents] for cpus in rows]
        storage = [[self.storage_mbps[cpus][percent] for percent in percents] for cpus in rows]
        return {"source": "Synergy's offline profiler", **throughput_part(rows, memory, step_s, storage)}

    def dump(self) -> str:
        """As the text of a `profile.json`."""
        return json.dumps([self.iteration_s, self.epoch_s, self.storage_mbps])


@dataclass(frozen=True)
class Perf:
    """What `PERF_<job>.txt` says: seconds per iteration, and where the program was when it ended."""

    iteration_s: float
    iteration: int
    epoch: int

    def dump(self) -> str:
        """As the text of the file."""
        return f"{self.iteration_s!r}\n{self.iteration}\n{self.epoch}\n"


def perf_name(job: str, cpus: int) -> str:
    """Name the file of a job at one point, as Synergy's profiler does."""
    return f"PERF_{job}_cpu_{cpus}.txt"


def parse_perf(text: str, file: object) -> Perf:
    """Read a PERF file; what a program that ended early left out is 0."""
    words = [*text.split()[:3], "0", "0"]
    if not text.strip():
        raise InputError("is empty: the program ended before its first iteration", file=file)
    return Perf(
        _number(words[0], file, "iteration"), *(int(_number(word, file, "line", least=0)) for word in words[1:3])
    )


def of_perf_files(paths: list[Path], texts: list[str]) -> tuple[str, SynergyProfile]:
    """Return the job's name and a profile of the PERF files of its CPU sweep; memory was not varied."""
    iteration_s: dict[int, float] = {}
    jobs: dict[str, Path] = {}
    for path, text in zip(paths, texts, strict=True):
        named = _PERF.fullmatch(path.name)
        if named is None or named["cpus"] is None:
            raise InputError("must be named PERF_<job>_cpu_<CPUs>.txt, which says what was measured", file=path)
        iteration_s[int(named["cpus"])] = parse_perf(text, path).iteration_s
        jobs[named["job"]] = path
    if len(jobs) > 1:
        raise InputError(f"belongs to another job than {next(iter(jobs))}", file=list(jobs.values())[1])
    one: CachedSpeeds = {cpus: {100: seconds} for cpus, seconds in iteration_s.items()}
    return next(iter(jobs)), SynergyProfile(iteration_s, one, {cpus: {100: 0.0} for cpus in one})


def parse_synergy(content: Any, file: object) -> SynergyProfile:
    """Check what a `profile.json` says."""
    if (
        not isinstance(content, list)
        or len(content) != 3
        or not all(isinstance(each, dict) and each for each in content)
    ):
        rule = "is neither a profile file nor a profile.json of Synergy's, which is a list of three objects"
        raise InputError(rule, file=file)
    iteration_s = {_cpus(key, file): _number(value, file, f"0.{key}") for key, value in content[0].items()}
    epoch_s = {_cpus(key, file): _by_percent(row, file, f"1.{key}") for key, row in content[1].items()}
    storage = {_cpus(key, file): _by_percent(row, file, f"2.{key}", least=0) for key, row in content[2].items()}
    shapes = [{cpus: set(row) for cpus, row in table.items()} for table in (epoch_s, storage)]
    if (
        set(iteration_s) != set(epoch_s)
        or shapes[0] != shapes[1]
        or len({frozenset(row) for row in epoch_s.values()}) > 1
    ):
        raise InputError("has objects that differ in their CPUs or percentages", file=file)
    if 100 not in next(iter(epoch_s.values())):
        raise InputError("has no epoch with 100 percent cached", file=file)
    return SynergyProfile(iteration_s, epoch_s, storage)


def synergy_content(content: Any, file: str) -> dict[str, Any]:
    """Return the content of a profile file that says what a `profile.json` says."""
    return {"models": {job_name(Path(file)): parse_synergy(content, file).entry()}}


def job_name(path: Path) -> str:
    """The job of a profile.json: its folder is called after it, and after the time."""
    return _STAMP.sub("", path.resolve().parent.name) if path.name == "profile.json" else path.stem


def _by_percent(row: Any, file: object, field: str, least: float | None = None) -> dict[int, float]:
    if not isinstance(row, dict):
        raise InputError("must be an object by percentages", file=file, field=field, value=row)
    found = {
        int(_number(key, file, field, least=0)): _number(value, file, f"{field}.{key}", least)
        for key, value in row.items()
    }
    if any(percent > 100 for percent in found):
        raise InputError("is more than 100 percent", file=file, field=field, value=max(found))
    return found


def _cpus(key: Any, file: object) -> int:
    """CPUs are halved as floats by the original, so that 12.0 stands for 12."""
    value = _number(key, file, "CPUs")
    if value != int(value):
        raise InputError("is not a whole number of CPUs", file=file, value=key)
    return int(value)


def _number(value: Any, file: object, field: str, least: float | None = None) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or (number <= 0 if least is None else number < least):
        rule = "must be a positive number" if least is None else f"must be a number, {least:g} or more"
        raise InputError(rule, file=file, field=field, value=value)
    return number
