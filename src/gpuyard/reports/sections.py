"""The report's parts that are text and tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import polars as pl

from gpuyard._version import __version__
from gpuyard.core.reasons import WAIT_REASONS
from gpuyard.reports.chart_style import SERIES
from gpuyard.reports.charts import styled
from gpuyard.reports.comparison import by_load, mismatches
from gpuyard.reports.kinds import kind_of, metrics_of, run_labels
from gpuyard.reports.markup import BEST, table, text
from gpuyard.reports.metrics import JOB_METRICS, Metric
from gpuyard.reports.pairing import unpaired
from gpuyard.reports.phrases import CLOSE, count, hours, times
from gpuyard.reports.run_facts import figure, input_text, load_of, measured_jobs, notes_in
from gpuyard.results import WAIT_COLUMNS, Run

LONGEST = 5
"""Jobs listed for each run among those that waited longest."""

_INPUTS = (
    "policy",
    "command",
    "gpus",
    "load",
    "scale",
    "trace",
    "replan",
    "cluster",
    "workload",
    "window",
    "seed",
    "version",
)


def header(title: str, runs: Sequence[Run]) -> str:
    """Return the headline and what it is about."""
    gpus = " / ".join(dict.fromkeys(kind_of(run).gpus(run) for run in runs))
    work = " / ".join(dict.fromkeys(kind_of(run).work(run) for run in runs))
    seeds = sorted({str(run.info["seed"]) for run in runs if run.info.get("seed") is not None})
    facts = [count(len(runs), "run"), gpus, work, *([f"seed {', '.join(seeds)}"] if seeds else [])]
    return (
        '<header>\n<div class="eyebrow"><span>gpuyard report</span>'
        '<button id="theme" type="button" hidden>Dark</button></div>\n'
        f"<h1>{text(title)}</h1>\n"
        f'<p class="lede">{text(" · ".join(facts))}</p>\n</header>\n'
    )


def warnings(runs: Sequence[Run]) -> str:
    """Return what makes the comparison unfair, if anything does, and what the runs say about themselves."""
    lines = [line for peers in by_load(run for run in runs if "jobs" in run) for line in unpaired(peers)]
    lines += [f"{label}: {note}" for label, run in zip(run_labels(runs), runs, strict=True) for note in notes_in(run)]
    found = "".join(f"<p>{text(_sentence(line))}</p>" for line in [*lines, *mismatches(runs)])
    return f'<div class="card warn"><h3>Read with care</h3>{found}</div>\n' if found else ""


def figures_table(runs: Sequence[Run]) -> str:
    """Return the summary of every run; times also as ratios to the first run's."""
    metrics = metrics_of(runs)
    rows = []
    for item in styled(runs):
        peers = [run for run in runs if load_of(run) == load_of(item.run)]
        cells = (_figure_cell(item.run, peers, metric) for metric in metrics)
        rows.append([_swatch(item.color) + text(item.label), *cells])
    head = ["run", *(metric.title for metric in metrics)]
    note = "JCT: job completion time, from arrival to finish." if metrics is JOB_METRICS else ""
    note += " Below a time: its ratio to the first run's at the same load." if len(runs) > 1 else ""
    return f'<div class="card">{table(head, rows)}<p class="note">{text(note.strip())}</p></div>\n'


def reasons_table(runs: Sequence[Run]) -> str:
    """Return the seconds that the measured jobs of each run waited, by reason."""
    rows = []
    for item in styled(runs):
        totals = [float(measured_jobs(item.run)[column].sum()) for column in WAIT_COLUMNS]
        rows.append([text(item.label), *(f"{total:,.0f}" for total in totals), f"{sum(totals):,.0f}"])
    head = ["seconds waited", *(reason.label for reason in WAIT_REASONS), "all"]
    return f'<div class="card">{table(head, rows)}</div>\n'


def longest_waits(runs: Sequence[Run]) -> str:
    """Return the most patient jobs of each run, and how to ask why."""
    rows: list[list[str]] = []
    total = pl.sum_horizontal(*WAIT_COLUMNS).alias("waited")
    for label, run in zip(run_labels(runs), runs, strict=True):
        worst = run.jobs.with_columns(total).filter(pl.col("waited") > 0).top_k(LONGEST, by="waited")
        for job in worst.sort(["waited", "arrival_s"], descending=[True, False]).iter_rows(named=True):
            reason = max(WAIT_REASONS, key=lambda reason: job[reason.column])
            cells: list[Any] = [label, job["job_id"], job["model"], f"{job['gpus']:g}", hours(job["waited"])]
            rows.append([text(cell) for cell in [*cells, f"{reason.label} ({hours(job[reason.column])})"]])
    if not rows:
        return ""
    head = ["run", "job", "model", "GPUs", "waited", "mostly for"]
    hint = '<p class="note"><code>gpuyard why RUN JOB</code> tells all about a job.</p>'
    return f'<details class="card"><summary>Longest waits</summary>{table(head, rows, prose=True)}{hint}</details>\n'


def too_many(runs: Sequence[Run], details: int) -> list[str]:
    """Say which runs have charts of their own, where not all have."""
    return [f"Drawn for the first {details} of {len(runs)} runs; --details draws more."] if len(runs) > details else []


def left_out(runs: Sequence[Run], details: int) -> str:
    """Say which runs have no charts over time, and why."""
    bare = sum(1 for run in runs[:details] if not run.timeline.height)
    notes = [f"{count(bare, 'run')} kept no timeline and cannot be drawn over time."] if bare else []
    notes += too_many(runs, details)
    return f'<p class="note">{text(" ".join(notes))}</p>\n' if notes else ""


def inputs(runs: Sequence[Run]) -> str:
    """Return exactly what each run was given."""
    given = [key for key in _INPUTS if any(key in run.info for run in runs)]
    rows = [
        [text(label), *(text(input_text(run, key)) for key in given)]
        for label, run in zip(run_labels(runs), runs, strict=True)
    ]
    full = "".join(
        f"<details><summary>{text(label)}: run.json</summary>"
        f"<pre>{text(json.dumps(run.info, indent=2, sort_keys=True, ensure_ascii=False))}</pre></details>\n"
        for label, run in zip(run_labels(runs), runs, strict=True)
    )
    return f'<h2>Inputs</h2>\n<div class="card">{table(["run", *given], rows, prose=True)}{full}</div>\n'


def footer(runs: Sequence[Run]) -> str:
    """Say who made the page, and from which folders."""
    folders = ", ".join(dict.fromkeys(str(run.path) for run in runs if run.path))
    return f"<footer>gpuyard {text(__version__)}{': ' + text(folders) if folders else ''}</footer>"


def _figure_cell(run: Run, peers: Sequence[Run], metric: Metric) -> str:
    value, base = figure(run, metric.name), figure(peers[0], metric.name)
    if value is None:
        return "–"
    compared = metric.compared and metric.unit in ("hours", "seconds", "ms") and metric.name != "makespan_h"
    ratio = f"<small>{times(value / base)}</small>" if run is not peers[0] and base and compared else ""
    return (BEST if value == _best(metric, peers) else "") + text(metric.text(value)) + ratio


def _best(metric: Metric, peers: Sequence[Run]) -> float | None:
    values = [value for run in peers if (value := figure(run, metric.name)) is not None]
    clear = len(values) > 1 and max(values) > CLOSE * min(values)
    return min(values) if metric.less_is_better and clear else None


def _swatch(color: str) -> str:
    return f'<span class="swatch" style="background: var(--s{SERIES.index(color) + 1})"></span>'


def _sentence(said: str) -> str:
    return said[:1].upper() + said[1:] + ("" if said.endswith((".", "?")) else ".")
