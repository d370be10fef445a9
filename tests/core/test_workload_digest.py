"""Two workloads have one digest when their jobs are the same in every column, and only then."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from gpuyard.core.workload import Job, Workload

JOBS = [
    Job(1, 0.0, 1, "res50", iterations=100, tenant="vision", command="python train.py"),
    Job(2, 5.0, 2, "gnmt", iterations=50, cpus=4, memory_gb=32, storage_mbps=100, tenant="speech", gpu_types="V100"),
    Job(3, 9.0, 0.5, "res50", duration_s=3600, priority=2, tenant="vision"),
]
COLUMNS = [field.name for field in fields(Workload) if field.type.startswith("NDArray")]


def workload() -> Workload:
    return Workload.from_jobs(JOBS)


@pytest.mark.parametrize("name", COLUMNS)
def test_every_column_counts(name: str) -> None:
    given = workload()
    values = getattr(given, name).copy()
    values[0] = 7.25 if values.dtype.kind == "f" else 1 - values[0]
    assert replace(given, **{name: values}).digest() != given.digest()


def test_the_columns_are_all_of_a_job() -> None:
    assert len(COLUMNS) == len(fields(Job))


def test_where_jobs_come_from_does_not_count() -> None:
    assert replace(workload(), source="elsewhere.csv", notes=("a note",)).digest() == workload().digest()


def test_text_counts_by_what_it_says_and_not_by_its_codes() -> None:
    given = workload()
    names = ("unused", *reversed(given.models))
    codes = np.array([names.index(given.models[code]) for code in given.model], dtype=np.int32)
    assert replace(given, model=codes, models=names).digest() == given.digest()
    renamed = tuple("bert" if name == "gnmt" else name for name in given.models)
    assert replace(given, models=renamed).digest() != given.digest()


def test_jobs_of_a_longer_workload_are_the_same_jobs() -> None:
    longer = Workload.from_jobs([*JOBS, Job(4, 20.0, 1, "bert", iterations=1, tenant="another")])
    assert longer.digest() != workload().digest()
    assert longer.take(np.arange(3)).digest() == workload().digest()


def test_number_ids_and_text_ids_are_not_the_same() -> None:
    given = workload()
    assert replace(given, job_id=given.job_id.astype(np.str_)).digest() != given.digest()
    wider = given.job_id.astype("U20")
    assert replace(given, job_id=wider).digest() == replace(given, job_id=given.job_id.astype(np.str_)).digest()


def test_a_workload_without_commands_has_the_digest_that_it_had_before_there_were_any() -> None:
    jobs = [replace(job, command="") for job in JOBS]
    assert Workload.from_jobs(jobs).digest() == "ce3ba637f2f62acb"
