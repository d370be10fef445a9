"""What the runs show, in one sentence each: the titles of charts and reports."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyard.core.reasons import WAIT_REASONS
from gpuyard.reports.comparison import comparable
from gpuyard.reports.kinds import run_labels
from gpuyard.reports.phrases import CLOSE, percent, times
from gpuyard.reports.run_facts import at_load, figure, load_of, measured_jobs, policy_of
from gpuyard.reports.time_series import Series
from gpuyard.results import Run


def headline(runs: Sequence[Run]) -> str:
    """Say the main finding: who finishes jobs sooner, by how much, at which load."""
    contest = _contest(runs)
    if contest is None:
        return single(runs[0]) if len(runs) == 1 else f"{len(runs)} runs compared"
    best, worst = contest
    ratio = (figure(worst, "mean_jct_h") or 0.0) / (figure(best, "mean_jct_h") or 1.0)
    names = short_names([best, worst])
    if ratio < CLOSE:
        return f"{names[0]} and {names[1]} finish jobs equally soon{at_load(best)}"
    return f"{names[0]} finishes jobs {times(ratio)} sooner than {names[1]}{at_load(best)}"


def single(run: Run) -> str:
    """Say how one run went."""
    mean = figure(run, "mean_jct_h")
    if mean is None:
        return f"No measured job finished with {policy_of(run)}{at_load(run)}"
    return f"{policy_of(run)} finishes a job in {mean:.1f} h on average{at_load(run)}"


def means(runs: Sequence[Run]) -> str:
    """Say the means behind the headline."""
    contest = _contest(runs)
    if contest is None:
        return "Mean and 99th percentile of each run"
    names = short_names(contest)
    values = [figure(run, "mean_jct_h") or 0.0 for run in contest]
    return f"Mean completion time: {values[0]:.1f} h with {names[0]}, {values[1]:.1f} h with {names[1]}"


def tail(runs: Sequence[Run]) -> str:
    """Say what the slowest one percent of jobs see."""
    pair = _contest(runs)
    chosen = list(pair) if pair else list(runs[:1])
    values = [value for run in chosen if (value := figure(run, "p99_jct_h")) is not None]
    if not values:
        return "No measured job finished"
    if len(values) < 2 or max(values) < CLOSE * min(values):
        return f"One job in a hundred takes longer than {values[0]:.0f} h"
    names = short_names(chosen)
    return (
        f"One job in a hundred takes longer than {values[0]:.0f} h with {names[0]}, "
        f"{values[1]:.0f} h with {names[1]}{at_load(chosen[0])}"
    )


def against_load(runs: Sequence[Run]) -> str:
    """Say how the contest grows with load."""
    loads = sorted({load for run in runs if (load := load_of(run)) is not None})
    contests = [(load, pair) for load in loads if (pair := _contest(runs, load))]
    if not contests:
        return f"Mean completion time from {loads[0]:.3g} to {loads[-1]:.3g} jobs/h"

    def gain(pair: tuple[Run, Run]) -> float:
        return (figure(pair[1], "mean_jct_h") or 0.0) / (figure(pair[0], "mean_jct_h") or 1.0)

    load, pair = max(contests, key=lambda item: gain(item[1]))
    names = short_names(list(pair))
    if gain(pair) < CLOSE:
        return f"The policies stay close from {loads[0]:.3g} to {loads[-1]:.3g} jobs/h"
    return f"The gap is widest at {load:.3g} jobs/h: {names[0]} {times(gain(pair))} sooner than {names[1]}"


def utilisation(run: Run) -> str:
    """Say how much of the cluster was held and used."""
    text = f"GPUs {percent(figure(run, 'gpu_use'))} held"
    allocated, used = figure(run, "cpu_allocated"), figure(run, "cpu_use")
    if allocated is None or used is None:
        return text
    idle = allocated - used
    text += f"; CPUs {percent(allocated)} held"
    return text + (f", {percent(used)} of use to their jobs" if idle > 0.02 else ", nearly all of it used")


def demand(values: Series) -> str:
    """Say how often jobs ask for more GPUs than there are."""
    peak = float(values.gpu_demand.max(initial=0.0))
    above = float((values.gpu_demand > 1).mean())
    if above == 0:
        return f"Jobs never ask for more than {percent(peak)} of the GPUs"
    return f"Jobs ask for more GPUs than there are {percent(above)} of the time, at the peak {percent(peak)}"


def waiting(runs: Sequence[Run]) -> str:
    """Say what jobs mostly waited for."""
    totals = [sum(float(measured_jobs(run)[reason.column].sum()) for run in runs) for reason in WAIT_REASONS]
    whole = sum(totals)
    if whole <= 0:
        return "No job waited"
    most, reason = max(zip(totals, WAIT_REASONS, strict=True), key=lambda pair: pair[0])
    return f"{percent(most / whole)} of all waiting: {reason.label}"


def short_names(runs: Sequence[Run]) -> list[str]:
    """Name policies by the part in which they differ: tune and proportional rather than fifo+…"""
    names = [policy_of(run) for run in runs]
    parts = [name.split("+") for name in names]
    if len(set(names)) < len(names) or any(len(part) != 2 for part in parts):
        return run_labels(runs)
    for position in (0, 1):
        if len({part[position] for part in parts}) == 1:
            return [part[1 - position] for part in parts]
    return names


def _contest(runs: Sequence[Run], load: float | None = None) -> tuple[Run, Run] | None:
    """Pick the best and the worst mean among runs of different policies at one load, the highest if not told.

    None where the two differ in more than the policy: nobody could say what the difference comes from.
    """
    known = [run for run in runs if figure(run, "mean_jct_h")]
    loads = [load_of(run) for run in known] if load is None else [load]
    for candidate in sorted(set(loads), key=lambda value: -1.0 if value is None else value, reverse=True):
        there = [run for run in known if load_of(run) == candidate]
        if len({policy_of(run) for run in there}) > 1:
            ranked = sorted(there, key=lambda run: figure(run, "mean_jct_h") or 0.0)
            return (ranked[0], ranked[-1]) if comparable([ranked[0], ranked[-1]]) else None
    return None
