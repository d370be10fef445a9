"""What processes are started with: each node's processes see the GPUs that they have there, and no others."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpuyard.core.errors import InputError
from gpuyard.core.grants import Grant, Part
from gpuyard.core.workload import Job
from gpuyard.runtime.launching import JobStarts, port_of
from gpuyard.runtime.records import Attempt, JobRecord
from gpuyard.runtime.submitting import submitted_jobs


def test_processes_see_the_gpus_of_their_node(tmp_path: Path) -> None:
    parts = tuple(Part(node, gpu, amounts={"cpus": 1.5}) for node, gpu in (("a", 2), ("a", 3), ("b", 0)))
    attempt = Attempt(1, Grant("wide", parts), 0.0, 0.0, 0)
    record = JobRecord(Job("wide", 0.0, 3, "resnet50"))
    starts = JobStarts(tmp_path, 1.0, 1800.0)
    first, second = (starts.of(record, attempt, node).environment for node in ("a", "b"))
    names = ("CUDA_VISIBLE_DEVICES", "LOCAL_WORLD_SIZE", "WORLD_SIZE", "SYNERGY_START_RANK", "SYNERGY_CPU_THIS_SERVER")
    assert [first[name] for name in names] == ["2,3", "2", "3", "0", "3"]
    assert [second[name] for name in names] == ["0", "1", "3", "2", "1.5"]
    assert [first["NODE_RANK"], second["NODE_RANK"]] == ["0", "1"]  # by which Lightning counts its processes
    assert first["MASTER_PORT"] == second["MASTER_PORT"]


def test_submitted_jobs_arrive_now_or_later() -> None:
    asked: dict[str, Any] = {
        "directory": "/somewhere",
        "jobs": [{"job_id": "a", "iterations": 5}, {"job_id": "b", "arrival_s": 60.0, "iterations": 5}],
    }
    assert [new.job.arrival_s for new in submitted_jobs(json.dumps(asked), 500.0)] == [500.0, 560.0]
    with pytest.raises(InputError, match="is not a field of a job"):
        submitted_jobs(json.dumps(asked | {"jobs": [{"job_id": "a", "gpu": 1}]}), 0.0)


def test_a_submitted_command_need_not_say_how_long_it_takes_and_a_model_must() -> None:
    asked = {"directory": "/somewhere"}
    (found,) = submitted_jobs(json.dumps(asked | {"jobs": [{"job_id": "a", "command": "train"}]}), 0.0)
    assert found.job.endless
    with pytest.raises(InputError, match="a job needs iterations or duration_s"):
        submitted_jobs(json.dumps(asked | {"jobs": [{"job_id": "a", "model": "resnet50"}]}), 0.0)


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[2J", "x" * 201, 7])
def test_a_name_that_spoils_the_queue_for_others_is_refused(name: object) -> None:
    asked = {"directory": "/somewhere", "jobs": [{"job_id": name, "iterations": 5}]}
    with pytest.raises(InputError, match="must be 1 to 200 printable characters"):
        submitted_jobs(json.dumps(asked), 0.0)


def test_a_later_attempt_meets_at_another_port_and_is_told_what_was_saved(tmp_path: Path) -> None:
    grant = Grant("one", (Part("a", 0),))
    record = JobRecord(Job("one", 0.0, 1, "resnet50"), done_steps=70, saved_steps=50)
    first, second = (
        JobStarts(tmp_path, 1.0, 1800.0).of(record, Attempt(number, grant, 0.0, 0.0, 0), "a").environment
        for number in (1, 2)
    )
    assert first["MASTER_PORT"] != second["MASTER_PORT"]  # the one before may still be taken
    assert first["SYNERGY_ELAPSED_ITERS"] == "50"


def test_jobs_named_alike_meet_at_ports_of_their_own_in_all_their_attempts() -> None:
    attempts = [(f"job{number}", attempt) for number in range(10) for attempt in range(1, 6)]
    assert len({port_of(name, attempt) for name, attempt in attempts}) == len(attempts)
