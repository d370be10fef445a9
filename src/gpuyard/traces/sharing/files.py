"""An experiment from a file of either format."""

from __future__ import annotations

import stat
from pathlib import Path

from gpuyard.core.arguments import check_number, check_path, check_regular
from gpuyard.core.errors import InputError
from gpuyard.core.sharing import SharingExperiment, check_seconds
from gpuyard.policies.registry import LAUNCHINGS, TIMESHARES
from gpuyard.traces.sharing.deft import read_deft
from gpuyard.traces.sharing.native import read_native


def read_experiment(path: str | Path, *, seed: int = 1, seconds: float | None = None) -> SharingExperiment:
    """Read an experiment; the seed is that of jobs that come at random, `seconds` goes before what the file says."""
    check_path(path, "experiment")
    check_number(seed, "seed", least=0, whole=True)
    if seconds is not None:
        check_seconds(seconds)
    _check_file(Path(path))
    read = read_deft if Path(path).suffix.lower() == ".json" else read_native
    experiment = read(Path(path), seed, seconds)
    _check_names(experiment, Path(path))
    return experiment


def _check_names(experiment: SharingExperiment, path: Path) -> None:
    """Refuse policies that nobody knows, while it is known which file names them."""
    try:
        LAUNCHINGS.find(experiment.policy)
        TIMESHARES.find(experiment.sharing)
    except InputError as error:
        raise error if error.file is not None else error.located(path) from None


def _check_file(path: Path) -> None:
    hint = "Name an experiment of Deft's (JSON) or of ours (YAML)"
    check_regular(path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise InputError("does not exist", file=path, hint=hint) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot be read: {why}", file=path, hint=hint) from None
    if stat.S_ISDIR(mode):
        raise InputError("is a folder", file=path, hint=hint)
