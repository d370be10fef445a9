"""The figures of a run of programs on emulated GPUs: how long they and their steps took, and how much memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

MIB = 2**20
_STEP_FIGURES = ("mean_step_s", "p50_step_s", "p99_step_s")


def summarise_programs(programs: pl.DataFrame, steps: pl.DataFrame | None = None) -> dict[str, Any]:
    """Sum up the programs of a run; a figure that nothing supports is None.

    Programs run side by side: times that pass are the longest of them, work is the sum.
    """
    longest = {name: _largest(programs, name) for name in ("wall_s", "emulated_s", "steps")}
    gpu_s = float(np.sum(programs["gpu_s"].to_numpy()))
    peak = _largest(programs, "peak_memory_bytes")
    return {
        "programs": programs.height,
        "failed": programs.filter(pl.col("exit_code") != 0).height,
        **longest,
        "gpu_s": gpu_s,
        "gpu_s_per_step": gpu_s / longest["steps"] if longest["steps"] else None,
        "waited_s": float(np.sum(programs["waited_s"].to_numpy())),
        **_step_times(steps),
        "peak_memory_mib": None if peak is None else peak / MIB,
        "durations_from": _main_source(programs),
        "expected_error": _largest(programs, "expected_error"),
    }


def step_seconds(steps: pl.DataFrame) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return how long each step took, in the table's order."""
    seconds: np.ndarray[Any, np.dtype[np.float64]] = steps["end_s"].to_numpy() - steps["start_s"].to_numpy()
    return seconds


def _step_times(steps: pl.DataFrame | None) -> dict[str, float | None]:
    if steps is None or not steps.height:
        return dict.fromkeys(_STEP_FIGURES)
    seconds = step_seconds(steps)
    values = (float(np.mean(seconds)), float(np.percentile(seconds, 50)), float(np.percentile(seconds, 99)))
    return dict(zip(_STEP_FIGURES, values, strict=True))


def _largest(programs: pl.DataFrame, column: str) -> Any:
    return programs[column].max()


def _main_source(programs: pl.DataFrame) -> str | None:
    """Where most of the GPU time's durations come from."""
    totals = programs.group_by("durations_from", maintain_order=True).agg(pl.col("gpu_s").sum())
    ranked = totals.sort("gpu_s", descending=True, maintain_order=True)["durations_from"].to_list()
    return ranked[0] if ranked else None
