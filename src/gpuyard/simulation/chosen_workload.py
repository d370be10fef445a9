"""The workload that options describe: made, or read from a file."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from hashlib import file_digest
from pathlib import Path
from typing import Any

import numpy as np

from gpuyard import traces
from gpuyard.core.arguments import check_regular
from gpuyard.core.errors import InputError
from gpuyard.core.workload import Workload
from gpuyard.profiles import Zoo
from gpuyard.simulation.options import DEFAULT_JOBS, DEFAULT_LOAD, Options

MAKING = ("split", "jobs", "multi_gpu", "small", "arrivals")
"""Options by which a workload is made or read, and by nothing else."""

_DEPENDS_ON = (*MAKING, "workload", "load", "seed", "static", "faithful", "profiles")


def chosen_workload(options: Options, zoo: Zoo) -> Workload:
    """Read or make the workload; neighbours in a study often share it, so the last one is kept."""
    choice = tuple((name, getattr(options, name)) for name in _DEPENDS_ON)
    return _workload(choice, zoo if options.profiles else None, _content(options.workload))


def _content(path: str | None) -> str:
    """What tells a file from the one that had its name before; nothing where it cannot be read."""
    if path is None:
        return ""
    check_regular(path)
    try:
        with Path(path).open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""  # whoever reads it says why


@lru_cache(maxsize=1)
def _workload(choice: tuple[tuple[str, Any], ...], zoo: Zoo | None, content: str) -> Workload:  # noqa: ARG001
    options = Options(**dict(choice))
    return _made(options, zoo) if options.workload is None else _read(options, options.workload, zoo)


def _made(options: Options, zoo: Zoo | None) -> Workload:
    if options.arrivals == "trace":
        raise InputError(
            "needs a workload file to take arrivals from", field="arrivals", value="trace", hint="Add --workload FILE"
        )
    return traces.generate(
        jobs=options.jobs or DEFAULT_JOBS,
        load=options.load or DEFAULT_LOAD,
        split=options.split,
        seed=options.seed,
        multi_gpu=bool(options.multi_gpu),
        arrivals="static" if options.static else "exponential",
        durations="small" if options.small else "exponential",
        zoo=zoo,
    )


def _read(options: Options, path: str, zoo: Zoo | None) -> Workload:
    reader = traces.find_reader(traces.Source.open(path))
    load = options.load or DEFAULT_LOAD
    workload = traces.read_workload(
        path, format=reader.name, seed=options.seed, load=load, split=options.split, philly=_philly(options), zoo=zoo
    )
    if reader.name == "philly":
        return workload
    if options.multi_gpu is False:
        workload = replace(workload, gpus=np.minimum(workload.gpus, 1.0), continuation=None)
    if options.arrivals in ("exponential", "static"):
        workload = traces.with_arrivals(workload, options.arrivals, load=load, seed=options.seed)
    return workload


def _philly(options: Options) -> traces.PhillyOptions:
    """Read Philly's log at its word, or as Synergy did: to draw arrivals or durations, and in faithful runs."""
    arrivals = options.arrivals or ("static" if options.static else None)
    drawn = options.faithful or options.small or options.load is not None
    arrivals = arrivals or ("exponential" if drawn else "trace")
    if arrivals == "trace" and not options.faithful:
        return traces.PhillyOptions(multi_gpu=options.multi_gpu is not False)
    own = arrivals == "trace"
    published = traces.PhillyOptions.published(
        multi_gpu=bool(options.multi_gpu), small=options.small, no_exp=own, trace_arrivals=own
    )
    return replace(published, arrivals="static") if arrivals == "static" else published
