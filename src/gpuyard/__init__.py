"""Decide who runs on which GPU, with how much of it and when; and find out what that decision is worth.

The names below are the public surface. They are imported when first used, so that `import gpuyard` is instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuyard._version import __version__

if TYPE_CHECKING:
    from gpuyard.core.cluster import Cluster
    from gpuyard.core.errors import GpuyardError, InputError
    from gpuyard.core.service import Service
    from gpuyard.core.workload import Job, Workload
    from gpuyard.emulation.in_process import emulate
    from gpuyard.results import Run, load_run
    from gpuyard.simulation.options import Options
    from gpuyard.simulation.study import simulate
    from gpuyard.traces import generate, read_cluster, read_workload

__all__ = [
    "Cluster",
    "GpuyardError",
    "InputError",
    "Job",
    "Options",
    "Run",
    "Service",
    "Workload",
    "__version__",
    "emulate",
    "generate",
    "load_run",
    "read_cluster",
    "read_workload",
    "simulate",
]

_HOMES = {
    "Cluster": "core.cluster",
    "GpuyardError": "core.errors",
    "InputError": "core.errors",
    "Job": "core.workload",
    "Options": "simulation.options",
    "Run": "results",
    "Service": "core.service",
    "Workload": "core.workload",
    "emulate": "emulation.in_process",
    "generate": "traces",
    "load_run": "results",
    "read_cluster": "traces",
    "read_workload": "traces",
    "simulate": "simulation.study",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'gpuyard' has no attribute {name!r}")
    value = getattr(import_module(f"gpuyard.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
