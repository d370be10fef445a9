"""The report's part about programs on emulated GPUs: their headline, how long steps took, and each process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gpuyard.reports.chart_style import legend_above, new_figure
from gpuyard.reports.charts import styled
from gpuyard.reports.comparison import comparable
from gpuyard.reports.kinds import run_labels
from gpuyard.reports.markup import table, text
from gpuyard.reports.phrases import CLOSE, count, percent, times
from gpuyard.reports.run_facts import figure, input_text
from gpuyard.results import Run
from gpuyard.results.programs import MIB

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 500
"""Points of a line; longer runs are drawn as means over neighbouring steps."""

_PACES = {"mean_step_s": "a step", "gpu_s_per_step": "of GPU time a step", "emulated_s": "in all"}
"""What programs are compared by, the most telling first, and how it is said."""


def headline(runs: Sequence[Run]) -> str:
    """Say how one run of a program went, or which of several took least time."""
    if len(runs) == 1:
        return _single(runs[0])
    pace = next((name for name in _PACES if all(figure(run, name) for run in runs)), None)
    if pace is None or not comparable(runs):
        return f"{len(runs)} runs compared"
    ranked = sorted(zip(run_labels(runs), runs, strict=True), key=lambda pair: figure(pair[1], pace) or 0.0)
    (best, fast), (worst, slow) = ranked[0], ranked[-1]
    ratio = (figure(slow, pace) or 0.0) / (figure(fast, pace) or 1.0)
    if ratio < CLOSE:
        return f"{best} and {worst} take equally long"
    return f"{best} takes {figure(fast, pace):.3g} s {_PACES[pace]}, {times(ratio)} less than {worst}"


def step_times(runs: Sequence[Run]) -> Figure:
    """Draw how long each step took, one line a run."""
    canvas, (axes,) = new_figure(height=3.2)
    handles: dict[str, Any] = {}
    for item in styled(runs):
        steps, seconds = step_curve(item.run)
        (handles[item.label],) = axes.plot(steps, seconds, color=item.color, linestyle=item.dash, linewidth=1.6)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("step")
    axes.set_ylabel("seconds")
    legend_above(axes, list(handles.values()), list(handles))
    return canvas


def step_curve(run: Run) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return step numbers and the seconds they took, as means over the processes and, of many, over neighbours."""
    lasted = (pl.col("end_s") - pl.col("start_s")).mean().alias("seconds")
    means = run["steps"].group_by("step").agg(lasted).sort("step")
    parts = min(POINTS, means.height) or 1
    numbers, seconds = (np.array_split(means[name].to_numpy(), parts) for name in ("step", "seconds"))
    return np.array([part.mean() for part in numbers if len(part)]), np.array([p.mean() for p in seconds if len(p)])


def programs_table(runs: Sequence[Run]) -> str:
    """Return one row for each process of each run."""
    head = ["run", "process", "GPUs", "steps", "emulated, s", "GPU time, s"]
    head += ["peak memory, MiB", "durations from", "error"]
    rows = []
    for label, run in zip(run_labels(runs), runs, strict=True):
        for row in run["programs"].iter_rows(named=True):
            kinds = ", ".join(f"{kind} {gpu}" for gpu, kind in zip(row["gpu_ids"], row["gpu_kinds"], strict=False))
            cells = [label, row["program"], kinds, row["steps"], f"{row['emulated_s']:.2f}", f"{row['gpu_s']:.2f}"]
            cells += [f"{row['peak_memory_bytes'] / MIB:,.0f}", row["durations_from"], percent(row["expected_error"])]
            rows.append([text(cell) for cell in cells])
    return f'<div class="card">{table(head, rows, prose=True)}</div>\n'


def _single(run: Run) -> str:
    (label,) = run_labels([run])
    gpu_s, memory = figure(run, "gpu_s") or 0.0, figure(run, "peak_memory_mib") or 0.0
    steps = count(int(figure(run, "steps") or 0), "step")
    return f"{label}: {steps} on {input_text(run, 'gpus')}, {gpu_s:.2f} s of GPU time, peak memory {memory:,.0f} MiB"
