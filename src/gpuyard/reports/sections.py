"""The report's parts that are text and tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import polars as pl

from gpuyard._version import __version__
from gpuyard.reports import findings
from gpuyard.reports.canvas import SERIES
from gpuyard.reports.charts import styled
from gpuyard.reports.comparison import METRICS, mismatches
from gpuyard.reports.markup import BEST, table, text
from gpuyard.reports.words import (
    REASONS,
    cluster_of,
    count,
    figure,
    hours,
    input_text,
    load_of,
    measured_jobs,
    percent,
    run_labels,
    times,
)
from gpuyard.results import Run

LONGEST = 5
"""Jobs listed for each run among those that waited longest."""

_EXTRA = {"mean_wait_h": "mean wait, h", "preemptions": "preemptions", "moves": "moves", "unfinished": "unfinished"}
_INPUTS = ("policy", "load", "cluster", "workload", "window", "seed", "version")
_LOWER_IS_BETTER = frozenset({"mean_jct_h", "p50_jct_h", "p99_jct_h", "p999_jct_h", "makespan_h", "mean_wait_h"})
_SHARES = frozenset({"gpu_use", "cpu_use"})


def header(runs: Sequence[Run]) -> str:
    """Return the headline and what it is about."""
    clusters = {str(cluster_of(run)): cluster_of(run) for run in runs}
    gpus = " / ".join(dict.fromkeys(count(cluster.total_gpus, "GPU") for cluster in clusters.values()))
    jobs = " / ".join(dict.fromkeys(count(int(run.summary.get("jobs") or 0), "measured job") for run in runs))
    seeds = sorted({str(run.info["seed"]) for run in runs if run.info.get("seed") is not None})
    facts = [count(len(runs), "run"), gpus, jobs, *([f"seed {', '.join(seeds)}"] if seeds else [])]
    return (
        '<header>\n<div class="eyebrow"><span>gpuyard report</span>'
        '<button id="theme" type="button" hidden>Dark</button></div>\n'
        f"<h1>{text(findings.headline(runs))}</h1>\n"
        f'<p class="lede">{text(" · ".join(facts))}</p>\n</header>\n'
    )


def warnings(runs: Sequence[Run]) -> str:
    """Return what makes the comparison unfair, if anything does."""
    found = "".join(f"<p>{text(_capital(warning))}.</p>" for warning in mismatches(runs))
    return f'<div class="card warn"><h3>Read with care</h3>{found}</div>\n' if found else ""


def figures_table(runs: Sequence[Run]) -> str:
    """Return the summary of every run; times also as ratios to the first run's."""
    names = METRICS | _EXTRA
    rows = []
    for item in styled(runs):
        peers = [run for run in runs if load_of(run) == load_of(item.run)]
        rows.append([_swatch(item.color) + text(item.label), *(_figure_cell(item.run, peers, name) for name in names)])
    note = "JCT: job completion time, from arrival to finish."
    note += " Below a time: its ratio to the first run's at the same load." if len(runs) > 1 else ""
    return f'<div class="card">{table(["run", *names.values()], rows)}<p class="note">{text(note)}</p></div>\n'


def reasons_table(runs: Sequence[Run]) -> str:
    """Return the seconds that the measured jobs of each run waited, by reason."""
    rows = []
    for item in styled(runs):
        totals = [float(measured_jobs(item.run)[column].sum()) for column in REASONS]
        rows.append([text(item.label), *(f"{total:,.0f}" for total in totals), f"{sum(totals):,.0f}"])
    return f'<div class="card">{table(["seconds waited", *REASONS.values(), "all"], rows)}</div>\n'


def longest_waits(runs: Sequence[Run]) -> str:
    """Return the most patient jobs of each run, and how to ask why."""
    rows: list[list[str]] = []
    total = pl.sum_horizontal(*REASONS).alias("waited")
    for label, run in zip(run_labels(runs), runs, strict=True):
        worst = run.jobs.with_columns(total).filter(pl.col("waited") > 0).top_k(LONGEST, by="waited")
        for job in worst.sort(["waited", "arrival_s"], descending=[True, False]).iter_rows(named=True):
            reason = max(REASONS, key=lambda column: job[column])
            cells: list[Any] = [label, job["job_id"], job["model"], f"{job['gpus']:g}", hours(job["waited"])]
            rows.append([text(cell) for cell in [*cells, f"{REASONS[reason]} ({hours(job[reason])})"]])
    if not rows:
        return ""
    head = ["run", "job", "model", "GPUs", "waited", "mostly for"]
    hint = '<p class="note"><code>gpuyard why RUN JOB</code> tells the whole story of a job.</p>'
    return f'<details class="card"><summary>Longest waits</summary>{table(head, rows, prose=True)}{hint}</details>\n'


def left_out(runs: Sequence[Run], details: int) -> str:
    """Say which runs have no charts over time, and why."""
    bare = sum(1 for run in runs[:details] if not run.timeline.height)
    notes = [f"{count(bare, 'run')} kept no timeline and cannot be drawn over time."] if bare else []
    if len(runs) > details:
        notes.append(f"Drawn for the first {details} of {len(runs)} runs; --details draws more.")
    return f'<p class="note">{text(" ".join(notes))}</p>\n' if notes else ""


def inputs(runs: Sequence[Run]) -> str:
    """Return exactly what each run was given."""
    rows = [
        [text(label), *(text(input_text(run, key)) for key in _INPUTS)]
        for label, run in zip(run_labels(runs), runs, strict=True)
    ]
    full = "".join(
        f"<details><summary>{text(label)}: run.json</summary>"
        f"<pre>{text(json.dumps(run.info, indent=2, sort_keys=True, ensure_ascii=False))}</pre></details>\n"
        for label, run in zip(run_labels(runs), runs, strict=True)
    )
    return f'<h2>Inputs</h2>\n<div class="card">{table(["run", *_INPUTS], rows, prose=True)}{full}</div>\n'


def footer(runs: Sequence[Run]) -> str:
    """Say who made the page, and from which folders."""
    folders = ", ".join(dict.fromkeys(str(run.path) for run in runs if run.path))
    return f"<footer>gpuyard {text(__version__)}{': ' + text(folders) if folders else ''}</footer>"


def _figure_cell(run: Run, peers: Sequence[Run], name: str) -> str:
    value, base = figure(run, name), figure(peers[0], name)
    if value is None:
        return "–"
    if name in _SHARES:
        return percent(value)
    shown = f"{value:,.2f}" if name.endswith("_h") else f"{value:,.0f}"
    ratio = f"<small>{times(value / base)}</small>" if run is not peers[0] and base and "_jct_" in name else ""
    return (BEST if value == _best(name, peers) else "") + text(shown) + ratio


def _best(name: str, peers: Sequence[Run]) -> float | None:
    values = [value for run in peers if (value := figure(run, name)) is not None]
    clear = len(values) > 1 and max(values) > findings.CLOSE * min(values)
    return min(values) if name in _LOWER_IS_BETTER and clear else None


def _swatch(color: str) -> str:
    return f'<span class="swatch" style="background: var(--s{SERIES.index(color) + 1})"></span>'


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
