"""From a setting to a run: reads or makes the workload, reads the cluster, simulates, saves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gpuyard import traces
from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.core.workload import Workload
from gpuyard.policies.registry import Policy, resolve
from gpuyard.profiles import load_zoo
from gpuyard.results import Run, default_folder
from gpuyard.simulation.engine import load_kernels
from gpuyard.simulation.engine import simulate as run_engine
from gpuyard.simulation.failure_file import read_failures
from gpuyard.simulation.options import Options
from gpuyard.simulation.pool import Report
from gpuyard.simulation.setting import DEFAULT_JOBS, DEFAULT_LOAD, Setting

_DEFAULTS = Options()
_WORKLOAD_FIELDS = ("workload", "load", "split", "seed", "jobs", "multi_gpu", "small", "arrivals", "static", "faithful")


def simulate(
    cluster: Cluster | str | Path,
    workload: Workload | str | Path,
    policy: str | Policy = "fifo+tune",
    options: Options = _DEFAULTS,
) -> Run:
    """Run a workload on a cluster under a policy; both may be given as files, the cluster in the short form too.

    The policy may be a name, as on the command line, or an object: `Policy("mine", order, allocate)`.

    The run is not saved yet: `run.save(folder)` does.
    """
    if not isinstance(cluster, Cluster):
        cluster = traces.read_cluster(str(cluster))
    if not isinstance(workload, Workload):
        workload = traces.read_workload(workload)
    return run_engine(cluster, workload, policy, options)


@dataclass(frozen=True)
class Prepared:
    """A setting with its files read: all that a machine without them needs."""

    cluster: Cluster
    workload: Workload
    policy: str
    options: Options
    load: float | None

    def run(self, report: Report = lambda _: None) -> Run:
        """Simulate."""
        return run_engine(
            self.cluster, self.workload, self.policy, self.options, load=self.load,
            progress=lambda done, total: report(done / max(total, 1)),
        )  # fmt: skip


def prepare(setting: Setting) -> Prepared:
    """Read what the setting names, and check all that can be checked before a long run."""
    options = options_of(setting)
    resolve(
        setting.policy,
        faithful=options.faithful,
        placement=options.placement,
        opt_time_limit_s=options.opt_time_limit_s,
    )
    workload = workload_of(setting)
    if options.window and options.window[1] > len(workload):
        raise InputError(
            f"goes beyond the {len(workload)} jobs of the workload", field="window",
            value=":".join(map(str, options.window)), hint="Leave it out to measure all jobs",
        )  # fmt: skip
    return Prepared(traces.read_cluster(setting.cluster), workload, setting.policy, options, label(setting))


def warm_up(settings: Iterable[Setting]) -> None:
    """Compile or load every kernel that these settings need."""
    zoo = load_zoo()
    for policy, faithful in dict.fromkeys((setting.policy, setting.faithful) for setting in settings):
        load_kernels(resolve(policy, faithful=faithful), Options(faithful=faithful), zoo)


@dataclass(frozen=True)
class Task:
    """A setting, and where its run goes: to exactly this folder, or to one beside it when it is taken."""

    setting: Setting
    folder: Path
    replace: bool = False


def run_and_save(task: Task, report: Report) -> dict[str, Any]:
    """Simulate one setting, save the run and return its figures: the work of one process."""
    run = prepare(task.setting).run(report)
    folder = task.folder if task.replace else default_folder(task.folder.parent, task.folder.name)
    return run.save(folder, overwrite=task.replace).summary


def run_prepared(prepared: Prepared) -> Run:
    """Simulate without files: the work of one Ray task."""
    return prepared.run()


def label(setting: Setting) -> float | None:
    """Return the load to write beside the results; a trace with arrivals of its own is labelled as the user says."""
    return DEFAULT_LOAD if setting.load is None and setting.generated and not setting.static else setting.load


def options_of(setting: Setting) -> Options:
    """Translate a setting into the simulator's options."""
    return Options(
        faithful=setting.faithful,
        placement=setting.placement,
        round_s=setting.round,
        window=setting.measured,
        static=setting.static or setting.arrivals == "static",
        seed=setting.seed,
        restart_s=setting.restart_cost,
        migration_s=setting.migration_cost,
        checkpoint_every_s=setting.checkpoint_every,
        checkpoint_s=setting.checkpoint_cost,
        failures=read_failures(setting.failures) if setting.failures else (),
        failures_per_node_year=setting.failure_rate,
        repair_s=setting.repair_time,
        quotas=setting.quota,
        opt_time_limit_s=setting.opt_time_limit,
        timeline=setting.timeline,
    )


def workload_of(setting: Setting) -> Workload:
    """Read or make the workload; neighbours in a study often share it, so the last one is kept."""
    # Pydantic has no hashable form of a part of a model; its JSON text is one.
    return _workload(setting.model_dump_json(include=set(_WORKLOAD_FIELDS)))


@lru_cache(maxsize=1)
def _workload(text: str) -> Workload:
    setting = Setting.model_validate_json(text)
    workload = _generated(setting) if setting.workload is None else _read(setting, setting.workload)
    if setting.jobs is not None and setting.jobs < len(workload):
        workload = workload.take(np.arange(setting.jobs))
    return workload


def _generated(setting: Setting) -> Workload:
    if setting.arrivals == "trace":
        raise InputError(
            "needs a workload file to take arrivals from", field="arrivals", value="trace", hint="Add --workload FILE"
        )
    return traces.generate(
        jobs=setting.jobs or DEFAULT_JOBS,
        load=setting.load or DEFAULT_LOAD,
        split=setting.split,
        seed=setting.seed,
        multi_gpu=bool(setting.multi_gpu),
        arrivals="static" if setting.static or setting.arrivals == "static" else "exponential",
        durations="small" if setting.small else "exponential",
    )


def _read(setting: Setting, path: str) -> Workload:
    source = traces.Source.open(path)
    load = setting.load or DEFAULT_LOAD
    reader = traces.find_reader(source)
    workload = traces.read_workload(
        path, format=reader.name, seed=setting.seed, load=load, split=setting.split, philly=_philly(setting)
    )
    if reader.name != "philly" and setting.arrivals in ("exponential", "static"):
        workload = traces.with_arrivals(workload, setting.arrivals, load=load, seed=setting.seed)
    if reader.name != "philly" and setting.multi_gpu is False:
        workload = replace(workload, gpus=np.minimum(workload.gpus, 1.0))
    return workload


def _philly(setting: Setting) -> traces.PhillyOptions:
    """Read Philly's log at its word, or as Synergy did: to draw arrivals or durations, and in faithful runs."""
    arrivals = setting.arrivals or ("static" if setting.static else None)
    drawn = setting.faithful or setting.small or setting.load is not None
    arrivals = arrivals or ("exponential" if drawn else "trace")
    if arrivals == "trace" and not setting.faithful:
        return traces.PhillyOptions(multi_gpu=setting.multi_gpu is not False)
    own = arrivals == "trace"
    published = traces.PhillyOptions.published(
        multi_gpu=bool(setting.multi_gpu), small=setting.small, no_exp=own, trace_arrivals=own
    )
    return replace(published, arrivals="static") if arrivals == "static" else published
