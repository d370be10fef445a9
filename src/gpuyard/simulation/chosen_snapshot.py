"""The world that a snapshot shows, as what a simulation begins with."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpuyard.core.cluster import MOST_GPUS, Cluster
from gpuyard.core.errors import InputError
from gpuyard.core.workload import Workload
from gpuyard.policies.facts import NOBODY, Facts
from gpuyard.policies.feasibility import infeasible
from gpuyard.policies.instant import instant_of
from gpuyard.policies.snapshot_files import errors_of, read_facts
from gpuyard.profiles import Zoo
from gpuyard.simulation.endless_jobs import refuse_endless, work_of
from gpuyard.simulation.limits import check_rounds
from gpuyard.simulation.multiplex.snapshot_tasks import tasks_of, with_stated_models
from gpuyard.simulation.options import Options, refuse_beside_snapshot


class ChosenSnapshot(NamedTuple):
    """What it says, and what follows for a simulation."""

    facts: Facts
    cluster: Cluster
    workload: Workload
    """All jobs that are there, strangers too; where GPUs are shared, the tasks that may share one."""
    options: Options
    """With what holds there: quotas, and what starts and moves cost."""
    zoo: Zoo
    """With a model for each task that says for itself how it uses a GPU."""


def chosen_snapshot(options: Options, zoo: Zoo) -> ChosenSnapshot:
    """Read the snapshot that options name; InputError where it contradicts itself, or has jobs that would never end."""
    assert options.snapshot is not None
    for name, value in options.differing().items():
        refuse_beside_snapshot(name, value)
    facts = read_facts(options.snapshot)
    with errors_of(options.snapshot):
        if options.shares_gpus:
            facts, zoo = with_stated_models(facts, zoo)
        seen = tasks_of(facts) if options.shares_gpus else facts
        instant = instant_of(seen, zoo)
    cluster, workload = instant.cluster, instant.workload
    refuse_endless(seen, options)
    if options.until_s is None:
        _refuse_who_never_starts(seen, cluster, options.snapshot)
        work = work_of(instant.moment.tables.jobs, instant.moment.tables.progress.done, options.unknown_duration_s)
        check_rounds(replace(workload, iterations=work, duration_s=np.full(len(work), np.nan)), options.round_s, zoo)
    changed = replace(
        options, quota=facts.quotas, migration_cost_s=facts.move_cost_s, restart_cost_s=facts.start_cost_s,
        recorded_on=facts.recorded_on,
    )  # fmt: skip
    return ChosenSnapshot(facts, cluster, workload, changed, zoo)


def _refuse_who_never_starts(facts: Facts, cluster: Cluster, file: str) -> None:
    """Refuse jobs for which the nodes, or the quota of their tenant, have too few GPUs: they would wait for ever."""
    jobs = [fact.job for fact in facts.jobs.values() if fact.job.tenant != NOBODY and fact.holds is None]
    waiting = Workload.from_jobs(jobs)
    for number, unfit in enumerate(infeasible(waiting, cluster).tolist()):
        job = waiting.job(number)
        if unfit or job.gpus > facts.quotas.get(job.tenant, MOST_GPUS):
            raise InputError(
                f"GPUs for job {job.job_id} are more than the nodes, or its quota, have: it would wait for ever",
                file=file, field="gpus", value=job.gpus, hint="Add --until TIME to see the others",
            )  # fmt: skip
