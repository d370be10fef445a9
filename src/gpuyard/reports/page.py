"""The report: one HTML file that needs nothing but itself, and the same charts as PNGs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gpuyard.core.errors import InputError
from gpuyard.reports import charts, findings, markup, programs, sections, serving, sharing, sharing_details, time_charts
from gpuyard.reports.chart_style import to_png, to_svg
from gpuyard.reports.headlines import headline
from gpuyard.reports.kinds import run_labels
from gpuyard.reports.run_facts import load_of
from gpuyard.reports.time_series import series
from gpuyard.results import Run
from gpuyard.results.sharing import fitted_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DETAILED = 8
"""How many runs get charts of their own unless told otherwise."""


@dataclass
class _Pictures:
    """Collects PNGs while the page is put together."""

    details: int
    """How many runs get charts over time."""
    progress: Callable[[str], None]
    files: dict[str, bytes] = field(default_factory=dict)

    def add(self, name: str, title: str, caption: str, drawing: Figure) -> str:
        """Draw once for the page and once as a file; return the HTML."""
        svg = to_svg(drawing, name)
        self.files[f"{name}.png"] = to_png(drawing, title)
        return markup.figure(name, title, caption, svg)


def write_report(
    runs: Sequence[Run],
    out: Path | str,
    *,
    details: int = DETAILED,
    progress: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write report.html and its PNGs into a folder and return the page's path."""
    if not runs:
        raise InputError("a report needs at least one run", field="runs")
    page, pictures = build_report(runs, details=details, progress=progress)
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_all(folder, pictures | {"report.html": page.encode()})
    except OSError as error:
        raise InputError(f"the report could not be written: {error.strerror or error}", file=out) from error
    return folder / "report.html"


def build_report(
    runs: Sequence[Run], *, details: int = DETAILED, progress: Callable[[str], None] = lambda _: None
) -> tuple[str, dict[str, bytes]]:
    """Return the page and the PNGs by name."""
    pictures = _Pictures(details, progress)
    title = headline(runs)
    parts = [sections.header(title, runs), sections.warnings(runs)]
    for kind, chapter in CHAPTERS.items():
        mine = [run for run in runs if kind in run]
        if mine:
            parts += chapter(mine, pictures)
    parts += [sections.inputs(runs), sections.footer(runs)]
    return markup.document(title, "".join(parts)), pictures.files


def _about_jobs(runs: Sequence[Run], pictures: _Pictures) -> Iterator[str]:
    yield sections.figures_table(runs)
    pictures.progress("comparing runs")
    yield _completion(runs, pictures)
    yield _waiting(runs, pictures)
    names = _slugs(run_labels(runs))
    yield "<h2>Over time</h2>\n"
    for number, (run, label, name) in enumerate(zip(runs, run_labels(runs), names, strict=True)):
        if number < pictures.details and run.timeline.height:
            pictures.progress(f"drawing {label}")
            yield _over_time(run, label, name, pictures, opened=number < 2)
    yield sections.left_out(runs, pictures.details)


def _about_programs(runs: Sequence[Run], pictures: _Pictures) -> Iterator[str]:
    yield "<h2>Programs</h2>\n" + sections.figures_table(runs)
    timed = [run for run in runs if "steps" in run and run["steps"].height]
    if timed:
        caption = "Seconds of each step by the program's clock; the mean where several processes step together."
        yield pictures.add("steps", programs.headline(timed), caption, programs.step_times(timed))
    yield programs.programs_table(runs)


def _about_services(runs: Sequence[Run], pictures: _Pictures) -> Iterator[str]:
    yield "<h2>Services</h2>\n" + sections.figures_table(runs) + serving.services_table(runs)
    names = _slugs(run_labels(runs))
    for number, (run, label, name) in enumerate(zip(runs, run_labels(runs), names, strict=True)):
        if number >= pictures.details or not run["requests"].height:
            continue
        pictures.progress(f"drawing {label}")
        caption = "One row a service: half, nine tenths and 99 % of its answers took no longer. 100 % is its SLO."
        html = pictures.add(f"{name}-latency", f"Latencies with {label}", caption, serving.latency_bars(run))
        caption = "Means per interval, by when requests arrived; below, the GPUs that had slices that serve."
        html += pictures.add(f"{name}-course", f"Over time with {label}", caption, serving.over_time(run))
        state = " open" if number < 2 else ""
        yield f'<details class="run"{state}><summary>{markup.text(label)}</summary>\n{html}</details>\n'


def _about_sharing(runs: Sequence[Run], pictures: _Pictures) -> Iterator[str]:
    yield "<h2>Sharing a GPU</h2>\n" + sections.figures_table(runs) + sharing.processes_table(runs)
    if len(runs) > 1:
        caption = "One point a run. Left: urgent jobs are done soon. Low: the background hardly pays for it."
        yield pictures.add("trade-off", sharing.headline(runs), caption, sharing.trade_off(runs))
    points = sharing_details.overhead_points(runs)
    if fitted_line(points) is not None:
        title = sharing_details.overhead_title(points)
        caption = "One point a run and process: jobs that overlap no job of a higher priority. Dashed: the fitted line."
        yield pictures.add("sync-overhead", title, caption, sharing_details.overhead_chart(points))
    detailed = runs[: pictures.details]
    yield from (f'<p class="note">{note}</p>\n' for note in sections.too_many(runs, pictures.details))
    caption = "Median time of a process's jobs, as a multiple of what they take with the GPU to themselves."
    yield pictures.add("slowdown", "Slowdown against running alone", caption, sharing.slowdown_bars(detailed))
    caption = "Read upwards from a time: the share of a process's jobs done within it."
    yield pictures.add("jct-ms-cdf", "How long jobs took", caption, sharing.completion_cdf(detailed))
    labels = run_labels(runs)
    for run, label, name in zip(detailed, labels, _slugs(labels), strict=False):
        pictures.progress(f"drawing {label}")
        caption = "One dot a job. Dashed: the median of the same process alone."
        yield pictures.add(f"{name}-jct", f"Jobs over time with {label}", caption, sharing.jct_over_time(run))
        if "queues" in run and run["queues"].height:
            caption = "At the beginning: launches that the GPU has not finished; below, jobs from arrival to end."
            drawing = sharing_details.queues_over_time(run)
            yield pictures.add(f"{name}-queues", f"Queues with {label}", caption, drawing)


CHAPTERS: dict[str, Callable[[Sequence[Run], _Pictures], Iterator[str]]] = {
    "jobs": _about_jobs,
    "programs": _about_programs,
    "requests": _about_services,
    "completions": _about_sharing,
}
"""By the table that figures are of."""


def _completion(runs: Sequence[Run], pictures: _Pictures) -> str:
    html = "<h2>How long jobs took</h2>\n"
    if len(runs) > 1:
        caption = (
            "Strong bar: mean; pale bar: the 99th percentile. Measured jobs that finished; from arrival to finish."
        )
        html += pictures.add("policies", findings.means(runs), caption, charts.policy_bars(runs))
    if len({load_of(run) for run in runs} - {None}) > 1:
        caption = "Mean completion time of measured jobs, against how many jobs arrive per hour."
        html += pictures.add("load", findings.against_load(runs), caption, charts.mean_against_load(runs))
    caption = "Read upwards from a time: the share of jobs done within it. A curve further left is better."
    return html + pictures.add("jct-cdf", findings.tail(runs), caption, charts.jct_cdf(runs))


def _waiting(runs: Sequence[Run], pictures: _Pictures) -> str:
    caption = "Mean over measured jobs, by what each second of waiting was spent on."
    chart = pictures.add("waits", findings.waiting(runs), caption, charts.wait_reasons(runs))
    return "<h2>Why jobs waited</h2>\n" + chart + sections.reasons_table(runs) + sections.longest_waits(runs)


def _over_time(run: Run, label: str, name: str, pictures: _Pictures, *, opened: bool) -> str:
    values = series(run)
    html = pictures.add(
        f"{name}-utilisation",
        findings.utilisation(run),
        "Means per interval. What is held above what its job can use is idle.",
        time_charts.utilisation(run, values),
    )
    html += pictures.add(
        f"{name}-demand",
        findings.demand(values),
        "GPUs that all arrived and unfinished jobs ask for, and how many such jobs there are.",
        time_charts.demand(run, values),
    )
    html += pictures.add(
        f"{name}-gpus",
        f"Who ran where with {label}",
        time_charts.explain_who_ran_where(run),
        time_charts.who_ran_where(run),
    )
    state = " open" if opened else ""
    return f'<details class="run"{state}><summary>{markup.text(label)}</summary>\n{html}</details>\n'


def _slugs(labels: Sequence[str]) -> list[str]:
    """Return file names from labels, each its own."""
    names: list[str] = []
    for label in labels:
        base = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")[:60] or "run"
        number = 1
        while (name := base if number == 1 else f"{base}-{number}") in names:
            number += 1
        names.append(name)
    return names


def _write_all(folder: Path, files: dict[str, bytes]) -> None:
    """Write files under other names first, so that a full disk leaves the folder as it was."""
    partial = {folder / f".{name}.partial": folder / name for name in files}
    try:
        for path, content in zip(partial, files.values(), strict=True):
            path.write_bytes(content)
        for path, final in partial.items():  # the page comes last: where it is, its pictures are too
            path.replace(final)
    except BaseException:
        for path in partial:
            path.unlink(missing_ok=True)
        raise
