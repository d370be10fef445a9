"""The throughput part of a profile file from plain seconds per step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuyard.profiles.model import REFERENCE_SHARE, ModelProfile

Matrix = Sequence[Sequence[float]]
"""A row for each number of CPUs, a column for each amount of memory."""


def throughput_part(
    cpus: Sequence[float], memory_gb: Sequence[float], step_s: Matrix, storage_mbps: Matrix
) -> dict[str, Any]:
    """Return the keys of a model in a profile file: speeds relative to that at the reference share.

    The storage bandwidth is that of the cheapest of the fastest points.
    """
    rates = 1 / np.array(step_s, dtype=np.float64)
    absolute = ModelProfile(
        "", "", cpu_grid=np.array(cpus, float), memory_grid=np.array(memory_gb, float), throughput=rates
    )
    reference = absolute.fed_speed(*REFERENCE_SHARE[:2])
    row, column = absolute.cheapest(absolute.top_speed)
    return {
        "iteration_s": 1 / reference,
        "storage_mbps": float(storage_mbps[row][column]),
        "grid": {"cpus": list(cpus), "memory_gb": list(memory_gb)},
        "throughput": np.round(rates / reference, 9).tolist(),
    }
