"""An experiment from a file of either format."""

from __future__ import annotations

from pathlib import Path

from gpuyard.core.arguments import check_number, check_path
from gpuyard.core.errors import InputError
from gpuyard.core.sharing import SharingExperiment
from gpuyard.traces.sharing.deft import read_deft
from gpuyard.traces.sharing.native import read_native


def read_experiment(path: str | Path, *, seed: int = 1, seconds: float | None = None) -> SharingExperiment:
    """Read an experiment; the seed is that of jobs that come at random, `seconds` goes before what the file says."""
    check_path(path, "experiment")
    check_number(seed, "seed", least=0, whole=True)
    if not Path(path).is_file():
        raise InputError("does not exist", file=path, hint="Name an experiment of Deft's (JSON) or of ours (YAML)")
    read = read_deft if Path(path).suffix.lower() == ".json" else read_native
    return read(Path(path), seed, seconds)
