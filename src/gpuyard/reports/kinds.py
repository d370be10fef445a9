"""The kinds of runs, by the table that their figures are of. A new kind is a row here, a headline and a chapter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.reports.metrics import JOB_METRICS, PROGRAM_METRICS, REQUEST_METRICS, SHARING_METRICS, Metric
from gpuyard.reports.phrases import count
from gpuyard.reports.run_facts import cluster_of, command_of, input_text, load_of, policy_of, request_load
from gpuyard.results import Run


@dataclass(frozen=True)
class RunKind:
    """What is said of the runs of one kind, wherever runs are shown."""

    table: str
    metrics: tuple[Metric, ...]
    label: Callable[[Run], str]
    """What names a run among others of its kind."""
    subject: Callable[[Run], str]
    """What runs of the same colour have in common."""
    gpus: Callable[[Run], str]
    work: Callable[[Run], str]
    inputs: Callable[[Run], dict[str, Any]]
    """What stands before the figures in a comparison."""
    details: Callable[[Run], str] = lambda _: ""
    """What tells runs with equal labels apart."""


def _gpus(run: Run) -> str:
    return input_text(run, "gpus")


def _counted(name: str, noun: str) -> Callable[[Run], str]:
    return lambda run: count(int(run.summary.get(name) or 0), noun)


KINDS = (
    RunKind(
        "jobs", JOB_METRICS, label=policy_of, subject=policy_of,
        gpus=lambda run: count(cluster_of(run).total_gpus, "GPU"), work=_counted("jobs", "measured job"),
        inputs=lambda run: {"policy": policy_of(run), "load": load_of(run), "jobs": run.summary.get("jobs")},
    ),
    RunKind(
        "programs", PROGRAM_METRICS, label=command_of, subject=_gpus, gpus=_gpus, work=_counted("programs", "program"),
        inputs=lambda run: {"command": command_of(run), "gpus": _gpus(run)}, details=_gpus,
    ),
    RunKind(
        "requests", REQUEST_METRICS, label=request_load, subject=request_load, gpus=_gpus,
        work=_counted("requests", "request"),
        inputs=lambda run: {"load": request_load(run), "gpus": _gpus(run), "requests": run.summary.get("requests")},
        details=_gpus,
    ),
    RunKind(
        "completions", SHARING_METRICS, label=policy_of, subject=policy_of, gpus=_gpus,
        work=_counted("jobs_done", "job"), inputs=lambda run: {"policy": policy_of(run), "gpus": _gpus(run)},
        details=lambda run: input_text(run, "experiment"),
    ),
)  # fmt: skip


def kind_of(run: Run) -> RunKind:
    """Return the kind of a run."""
    return next(kind for kind in KINDS if kind.table in run)


def metrics_of(runs: Sequence[Run]) -> tuple[Metric, ...]:
    """Return the figures that all of these runs have; InputError when they have none in common."""
    for kind in KINDS:
        if all(kind.table in run for run in runs):
            return kind.metrics
    kinds = ", ".join(f"{run.path or 'a run'} is {run.world} and has {' and '.join(run.tables)}" for run in runs)
    raise InputError(f"the runs have no figures in common: {kinds}", hint="Compare runs of one kind")


def run_labels(runs: Sequence[Run]) -> list[str]:
    """Name each run by its policy, command or load, and by what else tells them apart only where that is needed."""
    labels = [kind_of(run).label(run) for run in runs]
    details = [
        [kind_of(run).details(run) for run in runs],
        ["" if load_of(run) is None else f"{load_of(run):.3g} jobs/h" for run in runs],
        ["" if run.info.get("seed") is None else f"seed {run.info['seed']}" for run in runs],
        [run.path.name if run.path else "" for run in runs],
    ]
    for column in details:
        counts = Counter(labels)
        if len(set(column)) > 1:
            labels = [
                f"{label}, {detail}" if counts[label] > 1 and detail else label
                for label, detail in zip(labels, column, strict=True)
            ]
    counts = Counter(labels)
    return [f"{label} #{number}" if counts[label] > 1 else label for number, label in enumerate(labels, start=1)]
