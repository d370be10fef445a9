"""The report's part about services: who was answered in time, how fast, and on how much of the GPUs, over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from gpuyard.core.arrays import Floats
from gpuyard.reports.chart_style import MUTED, SERIES, legend_above, new_figure, shorten
from gpuyard.reports.kinds import run_labels
from gpuyard.reports.markup import table, text
from gpuyard.reports.phrases import CLOSE, count, times
from gpuyard.reports.run_facts import figure, input_text
from gpuyard.reports.time_series import binned, binned_rows
from gpuyard.results import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 240
"""Points of a line at most; none stands for less than a second."""

_SHOWN = {"p50_ms": ("p50", SERIES[2]), "p90_ms": ("p90", SERIES[4]), "p99_ms": ("p99", SERIES[0])}


def headline(runs: Sequence[Run]) -> str:
    """Say how one run went, or which of several answered more requests in time."""
    if len(runs) == 1:
        return _single(runs[0])
    labels = run_labels(runs)
    missed = [figure(run, "violations") or 0.0 for run in runs]
    best, worst = int(np.argmin(missed)), int(np.argmax(missed))
    if missed[worst] <= CLOSE * missed[best]:
        return f"{labels[0]} and {labels[-1]} leave equally few requests without an answer in time"
    ratio = f", {times(missed[worst] / missed[best])} more" if missed[best] else ""
    told = f"{labels[best]} leaves {missed[best]:.2%} of requests without an answer in time"
    return f"{told}; {labels[worst]} {missed[worst]:.2%}{ratio}"


def _single(run: Run) -> str:
    requests, missed = int(figure(run, "requests") or 0), figure(run, "violations") or 0.0
    return (
        f"{missed:.2%} of {count(requests, 'request')} were not answered in time, on {input_text(run, 'gpus')}; "
        f"{figure(run, 'goodput_per_s') or 0.0:,.0f} a second were"
    )


def latency_bars(run: Run) -> Figure:
    """Draw percentiles of each service's latency, in percent of its SLO."""
    services = run["services"].filter(pl.col("p99_ms").is_not_null())
    canvas, (axes,) = new_figure(height=float(np.clip(1.2 + 0.34 * services.height, 2.0, 8.0)))
    rows = np.arange(services.height)[::-1]
    share = {name: 100 * (services[name] / services["slo_ms"]).to_numpy() for name in (*_SHOWN, "max_ms")}
    longest = axes.scatter(share["max_ms"], rows, marker="|", s=90, color=MUTED)
    handles = [axes.scatter(share[name], rows, s=34, color=color, zorder=3) for name, (_, color) in _SHOWN.items()]
    limit = axes.axvline(100, color=SERIES[1], linewidth=1.4, linestyle=(0, (4, 2)))
    axes.set_yticks(rows, [shorten(name, 24) for name in services["service"]])
    axes.set_xlim(left=0)
    axes.set_xlabel("% of the SLO")
    legend_above(axes, [*handles, longest, limit], [*(label for label, _ in _SHOWN.values()), "longest", "SLO"])
    return canvas


@dataclass(frozen=True)
class OverTime:
    """A run over time, as means over the intervals between `edges_s`."""

    edges_s: Floats
    arrived_per_s: Floats
    in_time_per_s: Floats
    missed: Floats
    """Of the requests that arrived in an interval, those not answered in time; nan without any."""
    share: Floats
    """Sum of the slices that serve, in GPUs."""
    gpus: Floats
    """GPUs with at least one of these."""


def course(run: Run, bins: int = BINS) -> OverTime:
    """Return rates, misses and GPUs in use over a run."""
    requests, slices = run["requests"], run["slices"].filter(pl.col("services").list.len() > 0)
    end_s = max(float(run.info.get("end_s") or 0.0), 1.0)
    edges = np.linspace(0.0, end_s, min(bins, max(int(end_s), 1)) + 1)
    arrival = requests["arrival_s"].to_numpy()
    served = (requests["outcome"] == "served").to_numpy()
    every, good = np.histogram(arrival, edges)[0], np.histogram(arrival[served], edges)[0]
    width = np.diff(edges)
    start, end = slices["start_s"].to_numpy(), slices["end_s"].to_numpy()
    with np.errstate(invalid="ignore"):
        missed: Floats = 1.0 - good / every
    gpu = slices["gpu"].cast(pl.Int64).to_numpy()
    covered = binned_rows(start, end, np.ones(len(start)), edges, row=gpu, rows=int(gpu.max(initial=0)) + 1)
    return OverTime(
        edges, every / width, good / width, missed,
        share=binned(start, end, slices["share"].to_numpy(), edges), gpus=np.minimum(covered, 1.0).sum(axis=0),
    )  # fmt: skip


def over_time(run: Run) -> Figure:
    """Draw requests, those not answered in time, and the GPUs in use."""
    seen = course(run)
    canvas, (rates, missed, gpus) = new_figure(height=5.4, rows=3)
    came = rates.stairs(seen.arrived_per_s, seen.edges_s, color=MUTED, linewidth=1.2, baseline=None)
    done = rates.stairs(seen.in_time_per_s, seen.edges_s, color=SERIES[2], linewidth=1.4, baseline=None)
    legend_above(rates, [came, done], ["requests", "answered in time"])
    rates.set_ylabel("a second")
    late = missed.stairs(100 * np.nan_to_num(seen.missed), seen.edges_s, color=SERIES[1], linewidth=1.4, baseline=None)
    legend_above(missed, [late], ["not answered in time"])
    missed.set_ylabel("%")
    used = gpus.stairs(seen.gpus, seen.edges_s, color=SERIES[0], linewidth=1.4, baseline=None)
    share = gpus.stairs(
        seen.share, seen.edges_s, color=SERIES[4], linewidth=1.4, linestyle=(0, (4, 1.5)), baseline=None
    )
    legend_above(gpus, [used, share], ["GPUs in use", "sum of slices in use"])
    gpus.set_ylabel("GPUs")
    gpus.set_xlabel("time since the start, seconds")
    for axes, least in ((rates, 1.0), (missed, 2.0), (gpus, 1.2)):
        axes.set_ylim(0, max(axes.get_ylim()[1], least))
    gpus.set_xlim(0, float(seen.edges_s[-1]))
    return canvas


def services_table(runs: Sequence[Run]) -> str:
    """Return one row for each service of each run."""
    head = ["run", "service", "model", "requests", "not in time", "in time a second"]
    head += ["p50, ms", "p90, ms", "p99, ms", "longest, ms", "SLO, ms"]
    rows = []
    for label, run in zip(run_labels(runs), runs, strict=True):
        for row in run["services"].iter_rows(named=True):
            cells = [label, row["service"], row["model"], f"{row['requests']:,}"]
            cells += [_cell(row["violations"], ".2%"), _cell(row["goodput_per_s"], ",.1f")]
            cells += [_cell(row[name], ",.1f") for name in ("p50_ms", "p90_ms", "p99_ms", "max_ms", "slo_ms")]
            rows.append([text(cell) for cell in cells])
    return f'<div class="card">{table(head, rows, prose=True)}</div>\n'


def _cell(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
