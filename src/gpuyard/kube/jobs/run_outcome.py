"""What became of a run on Kubernetes, as a run folder has it: numbers for GPUs, and a clock that begins with the run.

Instants are the cluster's: those of the API server that creates jobs, and of the replica that decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.kube.jobs.nodes import GangNode, cluster_of
from gpuyard.runtime.records import JobRecord, JobState
from gpuyard.runtime.run_folder import Happened

Rows = dict[tuple[str, str, float], dict[str, Any]]
"""What happened: by table, name of the TrainingJob, and beginning."""
_INSTANTS = ("start_s", "end_s", "due_s", "asked_s", "working_s", "stop_asked_s")


def happened(
    jobs: Mapping[str, JobRecord],
    made_s: Mapping[str, float],
    rows: Rows,
    nodes: Iterable[GangNode],
    *,
    cut_short: bool,
) -> Happened:
    """What is known of jobs by the names of their TrainingJobs, with the moments at which these were made.

    The run has begun so that no job was made before it arrives, as the workload says it.
    """
    origin = min((made - jobs[name].job.arrival_s for name, made in made_s.items()), default=0.0)
    seen = list(nodes)
    cluster = cluster_of(seen)
    if cluster is None:
        raise InputError("has no GPUs of gpuyard", field="cluster")
    numbers = {place: number for number, place in enumerate(_places(seen))}
    tables: dict[str, list[dict[str, Any]]] = {"spans": [], "attempts": []}
    lost = 0
    for (table, name, _), row in sorted(rows.items(), key=lambda each: each[0]):
        found = {**row, "job_id": jobs[name].job.job_id}
        found |= {key: row[key] - origin for key in _INSTANTS if row.get(key) is not None}
        if table == "spans" and not numbers.keys() >= set(row["gpu_ids"]):
            lost += 1
            continue
        if table == "spans":
            found["gpu_ids"] = [numbers[place] for place in row["gpu_ids"]]
        tables[table].append(found)
    records = [_of_run(record, origin) for record in jobs.values()]
    notes = [f"{lost} spans on nodes that are gone are left out"] if lost else []
    notes += _notes(records, Counter(row["job_id"] for row in tables["attempts"]))
    unfinished = any(record.state is not JobState.FINISHED for record in records)
    return Happened(
        records, cluster, tables.__getitem__, notes=tuple(notes), cut_short=cut_short and unfinished
    )  # fmt: skip


def _places(nodes: Iterable[GangNode]) -> Iterable[str]:
    """All GPUs as statuses name them, in the order of a cluster of these nodes."""
    return (f"{gang.node}/{index}" for gang in nodes for index in gang.gpus)


def _of_run(record: JobRecord, origin: float) -> JobRecord:
    start_s, finish_s = (None if each is None else each - origin for each in (record.start_s, record.finish_s))
    return replace(record, start_s=start_s, finish_s=finish_s)


def _notes(records: Iterable[JobRecord], attempts: Mapping[Any, int]) -> Iterable[str]:
    for record in records:
        known = attempts.get(record.job.job_id, 0)
        if record.state.over and known < record.attempts:
            yield f"of job {record.name} {known} of {record.attempts} attempts are known"
        if record.state is JobState.CANCELLED:
            yield f"job {record.name} was cancelled" + (f": {record.note}" if record.note else "")
