"""From options to a run: everything is read, resolved and checked once, then simulated and saved."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from os import fspath
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from gpuyard import traces
from gpuyard.core.arguments import check_kind, check_path
from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.core.workload import Workload
from gpuyard.policies.facts import Facts
from gpuyard.policies.policy import Policy
from gpuyard.policies.resolve import label
from gpuyard.profiles import Zoo, load_zoo
from gpuyard.results import Run, folder_name, reserve, reserve_next, tidy
from gpuyard.simulation.chosen_snapshot import chosen_snapshot
from gpuyard.simulation.chosen_workload import MAKING, chosen_workload
from gpuyard.simulation.engine import simulate_cluster
from gpuyard.simulation.failures import node_events
from gpuyard.simulation.limits import check_quotas, check_rounds, feasible_part
from gpuyard.simulation.multiplex.engine import check_shared_inputs, simulate_shared_cluster
from gpuyard.simulation.opening import find_policy
from gpuyard.simulation.options import DEFAULT_LOAD, DEFAULT_WINDOW, Options, refuse_beside_snapshot
from gpuyard.simulation.pool import ReportShare, TaskEnd, run_all

_DEFAULTS = Options()


def simulate(
    cluster: Cluster | str | Path | None = None,
    workload: Workload | str | Path | None = None,
    policy: str | Policy | None = None,
    options: Options = _DEFAULTS,
    *,
    profiles: Sequence[str | Path] = (),
) -> Run:
    """Run a workload on a cluster under a policy; what is left out is as the options say.

    Cluster and workload may be values or files, the cluster in the short form too. The policy may be a name, as on the
    command line, or an object: `Policy("mine", order, allocate)`. `profiles` are files with models of one's own.

    The run is not saved yet: `run.save(folder)` does.
    """
    check_kind(cluster, "cluster", "a Cluster, text or a path", Cluster, str, Path, NoneType)
    check_kind(workload, "workload", "a Workload, text or a path", Workload, str, Path, NoneType)
    check_kind(policy, "policy", "a policy's name or a Policy", Policy, str, NoneType)
    check_kind(options, "options", "Options", Options)
    check_kind(profiles, "profiles", "a list of files", list, tuple)
    for file in profiles:
        check_path(file, "profiles")
    if profiles:
        options = replace(options, profiles=(*options.profiles, *(fspath(file) for file in profiles)))
    if isinstance(cluster, (str, Path)):
        options, cluster = _with(options, "cluster", fspath(cluster)), None
    if isinstance(workload, (str, Path)):
        options, workload = _with(options, "workload", fspath(workload)), None
    if isinstance(policy, str):
        options, policy = _with(options, "policy", policy), None
    return prepare(options, cluster=cluster, workload=workload, policy=policy).run()


@dataclass(frozen=True)
class Study:
    """What is simulated: all that a machine without the files needs."""

    cluster: Cluster
    workload: Workload
    policy: Policy
    options: Options
    zoo: Zoo
    load: float | None
    """Jobs an hour, as the results are labelled; none: as they arrive."""
    facts: Facts | None = None
    """Of the snapshot that it goes on from."""

    def run(self, report: ReportShare = lambda _: None) -> Run:
        """Simulate."""
        if self.options.shares_gpus:
            return simulate_shared_cluster(
                self.cluster, self.workload, self.policy, self.options, self.zoo, load=self.load, facts=self.facts
            )
        return simulate_cluster(
            self.cluster, self.workload, self.policy, self.options, zoo=self.zoo, load=self.load,
            progress=lambda done, total: report(done / max(total, 1)), facts=self.facts,
        )  # fmt: skip


def prepare(
    options: Options,
    *,
    cluster: Cluster | None = None,
    workload: Workload | None = None,
    policy: Policy | None = None,
) -> Study:
    """Read what the options name, unless it is given, and check all that can be checked before a long run."""
    given = {"cluster": cluster, "workload": workload, "policy": policy}
    if options.snapshot is not None:
        return _resumed(options, given)
    for name in [name for name, value in given.items() if value is not None]:
        _refuse_twice(options, name, *(MAKING if name == "workload" else ()))
    label = _label(options) if workload is None else options.load
    policy = policy or find_policy(options.policy, options)
    cluster = cluster or traces.read_cluster(options.cluster)
    node_events(cluster, options)  # refuses nodes that do not exist, and more failures than can be drawn
    zoo = load_zoo(options.profiles)
    made = workload is None and options.workload is None
    workload = chosen_workload(options, zoo) if workload is None else workload
    workload = _narrowed(workload, options, cluster, made)
    window = _window(options, made)
    workload = _reaching(workload, window, options.jobs)
    check_quotas(workload, options.quota)
    check_rounds(workload, options.round_s, zoo)
    if options.shares_gpus:
        check_shared_inputs(cluster, workload, policy, options, zoo)
    return Study(cluster, workload, policy, replace(options, window=window), zoo, label)


def _resumed(options: Options, given: dict[str, Any]) -> Study:
    """What goes on from a snapshot."""
    for name in ("cluster", "workload"):
        if given[name] is not None:
            refuse_beside_snapshot(name, "(a value)")
    if given["policy"] is not None:
        _refuse_twice(options, "policy")
    zoo = load_zoo(options.profiles)
    facts, cluster, workload, options, zoo = chosen_snapshot(options, zoo)
    policy = given["policy"] or find_policy(options.policy, options)
    if options.shares_gpus:
        check_shared_inputs(cluster, workload, policy, options, zoo)
    return Study(cluster, workload, policy, options, zoo, None, facts)


@dataclass(frozen=True)
class Task:
    """A simulation, and where its run goes: to exactly this folder, or to one beside it when it is taken."""

    options: Options
    folder: Path
    replace: bool = False


def save_all(
    tasks: Sequence[Task], *, processes: int | None = None, progress: ReportShare = lambda _: None
) -> Generator[TaskEnd[dict[str, Any]], None, None]:
    """Simulate and save on processes of this machine, and yield the figures as they come.

    Leaving the iteration early stops the processes; whichever way they end, nothing half-made is left.
    """
    try:
        yield from run_all(run_and_save, tasks, processes=processes, progress=progress)
    finally:
        for folder in {task.folder.parent for task in tasks}:
            tidy(folder)


def run_and_save(task: Task, report: ReportShare) -> dict[str, Any]:
    """Simulate, save the run and return its figures: the work of one process."""
    place = reserve(task.folder, overwrite=True) if task.replace else reserve_next(task.folder)
    with place as reserved:  # before the work: a name that cannot be had should not cost minutes
        return prepare(task.options).run(report).save(reserved).summary


def run_study(study: Study) -> Run:
    """Simulate without files: the work of one Ray task."""
    return study.run()


def run_name(options: Options) -> str:
    """Name a run by what most often tells it from others."""
    kind = "faithful" if options.faithful else label(options.multiplex) if options.shares_gpus else ""
    return folder_name(options.policy, _label(options), options.seed, kind)


def _label(options: Options) -> float | None:
    """Return the load to write beside the results; a trace with arrivals of its own is labelled as the user says."""
    made = options.workload is None and options.snapshot is None
    return DEFAULT_LOAD if options.load is None and made and not options.static else options.load


def _with(options: Options, name: str, value: str) -> Options:
    _refuse_twice(options, name)
    change: dict[str, Any] = {name: value}
    return replace(options, **change)


def _refuse_twice(options: Options, *names: str) -> None:
    """Refuse an option about something that was given as an argument beside the options."""
    for name in names:
        value = getattr(options, name)
        if value != getattr(_DEFAULTS, name):
            raise InputError(f"is an option about the {names[0]}, which is given too", field=name, value=value,
                             hint="Keep one of the two")  # fmt: skip


def _narrowed(workload: Workload, options: Options, cluster: Cluster, made: bool) -> Workload:
    """Leave out what the user does not want; of a workload that is read, take so many of the rest."""
    workload = traces.Filter(options.gpus, options.between_s, options.tenant).apply(workload)
    if options.skip_infeasible:
        workload = feasible_part(workload, cluster, options.quota)
    if made or options.jobs is None or options.jobs >= len(workload):
        return workload
    return workload.take(np.arange(options.jobs))


def _window(options: Options, made: bool) -> tuple[int, int] | None:
    """Return the jobs to measure; of the workload that is made by default its steady middle."""
    return DEFAULT_WINDOW if made and options.jobs is None and options.window is None else options.window


def _reaching(workload: Workload, window: tuple[int, int] | None, jobs: int | None) -> Workload:
    """Return the workload with every job of the window."""
    if window is None or window[1] <= len(workload):
        return workload
    if workload.endless and jobs is None:
        return workload.extended(window[1])
    raise InputError(
        f"goes beyond the {len(workload)} jobs of the workload", field="window", value=":".join(map(str, window)),
        hint="Leave it out to measure all jobs",
    )  # fmt: skip
