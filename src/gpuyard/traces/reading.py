"""Reading a workload from a file of any known format."""

from __future__ import annotations

import os

from gpuyard.core.errors import InputError, nearest
from gpuyard.core.workload import Workload
from gpuyard.profiles import Zoo, load_zoo
from gpuyard.traces.models import DEFAULT_SPLIT, Assignment, Split
from gpuyard.traces.options import PhillyOptions, Reader, ReadOptions
from gpuyard.traces.readers import READERS
from gpuyard.traces.source import Source


def read_workload(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    seed: int = 42,
    load: float = 9.0,
    split: Split = DEFAULT_SPLIT,
    assignment: Assignment = "overall",
    philly: PhillyOptions | None = None,
    zoo: Zoo | None = None,
) -> Workload:
    """Read a workload; the format is told by the file's content unless it is named.

    `load` (jobs an hour) serves traces without arrivals; `split` and `assignment` those that name no models. `zoo` has
    the models that may be named, `load_zoo(files)` those of one's own too.
    """
    source = Source.open(path)
    options = ReadOptions(seed, load, split, assignment, philly or PhillyOptions(), zoo or load_zoo())
    return find_reader(source, format).read(source, options)


def find_reader(source: Source, format: str | None = None) -> Reader:
    """Return the reader of this name, or the one that recognises the file."""
    if format is not None:
        named = {reader.name: reader for reader in READERS}
        if format not in named:
            raise InputError("is not a trace format", field="format", value=format, hint=nearest(format, named))
        return named[format]
    for reader in READERS:
        if reader.matches(source.head):
            return reader
    if not source.data.strip():
        raise InputError("is empty", file=source.name)
    raise InputError(
        "is in none of the formats gpuyard knows", file=source.name,
        hint="Known: " + ", ".join(reader.name for reader in READERS),
    )  # fmt: skip
