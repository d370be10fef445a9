"""Snapshots as JSON files: written by any world, read again anywhere."""

from __future__ import annotations

import json
import math
from collections.abc import Container, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from numbers import Integral
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpuyard.core.arguments import number_hint
from gpuyard.core.cluster import RESOURCES, NodeKind
from gpuyard.core.errors import InputError, LedgerError
from gpuyard.core.grants import WHOLE, GrantState
from gpuyard.core.workload import Job
from gpuyard.policies.facts import Facts, Holding, JobFact, NodeFact, own_thousandths
from gpuyard.policies.multiplex.interference import Usage
from gpuyard.policies.multiplex.observation_files import ObservationRecord, model_of, observation_records
from gpuyard.policies.registry import MULTIPLEXERS
from gpuyard.policies.sharing_facts import NOTHING_KNOWN, SharingFacts, TaskUse
from gpuyard.profiles import gpu_kind
from gpuyard.profiles.checking import NOT_READ_AS_NUMBER
from gpuyard.profiles.json_files import read_json
from gpuyard.profiles.step_files import write_whole

VERSION, OLDER = "snapshot/2", "snapshot/1"
"""The older one has neither what is taken of nodes nor sharing; what says nothing of these is written as it."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class _Gpu(_Strict):
    node: str
    gpu: int = Field(ge=0)
    share: float | None = Field(default=None, ge=0, le=1)
    gpu_memory_gb: float = Field(default=0.0, ge=0)


class _Holding(_Strict):
    gpus: list[_Gpu] = Field(min_length=1)
    state: Literal["reserved", "held", "releasing"] = "held"
    cpus: float = Field(default=0.0, ge=0)
    memory_gb: float = Field(default=0.0, ge=0)
    storage_mbps: float = Field(default=0.0, ge=0)
    network_gbps: float = Field(default=0.0, ge=0)


class _Node(_Strict):
    name: str = Field(min_length=1)
    gpus: int = Field(ge=0)
    cpus: float = Field(ge=0)
    memory_gb: float = Field(ge=0)
    storage_mbps: float = Field(default=0.0, ge=0)
    network_gbps: float = Field(default=0.0, ge=0)
    gpu_type: str = "V100"
    gpu_memory_gb: float | None = Field(default=None, ge=0)
    up: bool = True
    changed: bool = True
    taken: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)


class _Task(_Strict):
    job_id: int | str
    model: str = Field(min_length=1)
    compute: float = Field(ge=0, le=1)
    bandwidth: float = Field(ge=0, le=1)
    gpu_memory_gb: float = Field(ge=0)


class _SharingRecord(_Strict):
    policy: str = ""
    tasks: list[_Task] = Field(default_factory=list)
    observations: list[ObservationRecord] = Field(default_factory=list)


class _Job(_Strict):
    job_id: int | str
    arrival_s: float
    gpus: float = Field(gt=0)
    model: str = "generic"
    iterations: float | None = Field(default=None, ge=0)
    duration_s: float | None = Field(default=None, ge=0)
    cpus: float | None = Field(default=None, ge=0)
    memory_gb: float | None = Field(default=None, ge=0)
    storage_mbps: float | None = Field(default=None, ge=0)
    tenant: str = "default"
    priority: int = 0
    gpu_types: str = ""
    done_iterations: float = Field(default=0.0, ge=0)
    attained_s: float = Field(default=0.0, ge=0)
    waiting_since_s: float | None = None
    longest_wait_s: float = Field(default=0.0, ge=0)
    speed: float | None = Field(default=None, gt=0)
    held_since_s: float | None = None
    works_from_s: float | None = None
    holds: _Holding | None = None


class _File(_Strict):
    gpuyard: str
    now_s: float
    nodes: list[_Node]
    jobs: list[_Job]
    quotas: dict[str, float] = Field(default_factory=dict)
    move_cost_s: float = Field(default=0.0, ge=0)
    start_cost_s: float = Field(default=0.0, ge=0)
    recorded_on: str | None = None
    order: list[int | str] = Field(default_factory=list)
    sharing: _SharingRecord = Field(default_factory=_SharingRecord)


_NODE_FIELDS = ("gpus", *RESOURCES, "gpu_type", "gpu_memory_gb")
_JOB_FIELDS = tuple(each.name for each in fields(Job) if each.name != "command")
"""What a job runs is no matter of a decision."""
_PROGRESS = (
    "done_iterations",
    "attained_s",
    "waiting_since_s",
    "longest_wait_s",
    "speed",
    "held_since_s",
    "works_from_s",
)


def as_text(facts: Facts) -> str:
    """Facts as a file holds them; equal facts, equal text."""
    further = {} if facts.sharing == NOTHING_KNOWN else {"sharing": _sharing_record(facts)}
    old = not further and not any(node.taken for node in facts.nodes.values())
    content = {
        "gpuyard": OLDER if old else VERSION,
        "now_s": facts.now_s,
        "nodes": [_node_record(node) for node in facts.nodes.values()],
        "jobs": [_job_record(fact) for fact in facts.jobs.values()],
        "quotas": facts.quotas,
        "move_cost_s": facts.move_cost_s,
        "start_cost_s": facts.start_cost_s,
        "recorded_on": facts.recorded_on,
        "order": list(facts.order),
        **further,
    }  # fmt: skip
    return json.dumps(content, indent=1, allow_nan=False, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    """Worlds that keep their facts in tables have numbers of numpy's kinds."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a snapshot file cannot hold {type(value).__name__}")


def write_facts(facts: Facts, path: str | Path) -> None:
    """Write facts to a file; it appears whole or not at all."""
    write_whole(Path(path), as_text(facts))


def _node_record(node: NodeFact) -> dict[str, Any]:
    kind = {name: _as_read(getattr(node.kind, name)) for name in _NODE_FIELDS} | {"gpus": node.kind.gpus}
    taken = {"taken": dict(node.taken)} if node.taken else {}
    return {"name": node.name} | kind | {"up": node.up, "changed": node.changed} | taken


def _sharing_record(facts: Facts) -> dict[str, Any]:
    sharing = facts.sharing
    tasks = [
        {
            "job_id": name, "model": use.usage.model, "compute": use.usage.compute, "bandwidth": use.usage.bandwidth,
            "gpu_memory_gb": use.gpu_memory_gb,
        }
        for name, use in sharing.tasks.items() if name in facts.jobs
    ]  # fmt: skip
    return {"policy": sharing.policy, "tasks": tasks, "observations": observation_records(sharing.known)}


def _sharing(record: _SharingRecord, jobs: Container[Hashable]) -> SharingFacts:
    if record.policy and ".py:" not in record.policy:  # somebody's own file may be elsewhere
        MULTIPLEXERS.find(record.policy)
    tasks: dict[Hashable, TaskUse] = {}
    for each in record.tasks:
        if each.job_id not in jobs or each.job_id in tasks:
            rule = "stands twice" if each.job_id in tasks else "is not one of the jobs"
            raise InputError(rule, field="sharing.tasks", value=each.job_id)
        tasks[each.job_id] = TaskUse(Usage(each.model, each.compute, each.bandwidth), each.gpu_memory_gb)
    return SharingFacts(record.policy, tasks, model_of(record.observations))


def _as_read(value: Any) -> Any:
    """Whole amounts are written as the numbers that reading makes of them, so that saving twice gives equal bytes."""
    return float(value) if isinstance(value, Integral) else value


def _job_record(fact: JobFact) -> dict[str, Any]:
    values = {name: getattr(fact.job, name) for name in _JOB_FIELDS} | {name: getattr(fact, name) for name in _PROGRESS}
    record = {name: value for name, value in values.items() if not (isinstance(value, float) and math.isnan(value))}
    if fact.holds is not None:
        amounts = {name: each * len(fact.holds.gpus) for name, each in zip(RESOURCES, fact.holds.per_gpu, strict=True)}
        gpus = _gpu_records(fact.holds, own_thousandths(fact.job))
        record["holds"] = {"gpus": gpus, "state": fact.holds.state.name.lower()} | amounts
    return record


def _gpu_records(holds: Holding, usual: int) -> list[dict[str, Any]]:
    """The GPUs of a holding; shares and memory are written where they say more than the job's size does."""
    records: list[dict[str, Any]] = []
    for (node, gpu), thousandths, memory in zip(holds.gpus, holds.thousandths, holds.gpu_memory_gb, strict=True):
        share = {"share": thousandths / WHOLE} if thousandths != usual else {}
        records.append({"node": node, "gpu": gpu} | share | ({"gpu_memory_gb": memory} if memory else {}))
    return records


def read_facts(path: str | Path) -> Facts:
    """Read the facts of a snapshot; InputError names file, field, value and rule."""
    content = read_json(Path(path), VERSION, "snapshot", OLDER)
    with errors_of(path):
        parsed = _File.model_validate(content)
        if parsed.gpuyard == OLDER:
            _check_older(parsed)
        return _facts(parsed)


def _check_older(parsed: _File) -> None:
    """What an older file says of newer things is a mistake, which its readers of that time would refuse."""
    fields = ["sharing"] if "sharing" in parsed.model_fields_set else []
    fields += [f"nodes.{at}.taken" for at, node in enumerate(parsed.nodes) if "taken" in node.model_fields_set]
    if fields:
        raise InputError(f"is not a field of {OLDER}", field=fields[0], hint=f"Its version would be {VERSION}")


@contextmanager
def errors_of(path: str | Path) -> Iterator[None]:
    """Let whatever is wrong with a file's facts name the file."""
    try:
        yield
    except ValidationError as error:
        raise _as_input_error(error, path) from None
    except LedgerError as error:
        raise InputError(f"contradicts itself: {error}", file=path, field="holds") from None
    except InputError as error:
        raise error.located(path) from None


def _facts(parsed: _File) -> Facts:
    facts = Facts(
        parsed.now_s, quotas=parsed.quotas, move_cost_s=parsed.move_cost_s, start_cost_s=parsed.start_cost_s,
        recorded_on=parsed.recorded_on, order=tuple(parsed.order),
    )  # fmt: skip
    for node in parsed.nodes:
        values = node.model_dump(exclude={"name", "up", "changed", "taken"}, exclude_none=True)
        gpu = gpu_kind(node.gpu_type)
        kind = NodeKind(**values | {"gpu_type": gpu.key}, gpu=gpu)
        facts.add_node(node.name, kind, up=node.up, changed=node.changed, taken=node.taken)
    for job in parsed.jobs:
        values = job.model_dump(include=set(_JOB_FIELDS))
        given = {name: value for name, value in values.items() if value is not None}
        facts.add_job(Job(**given), **job.model_dump(include=set(_PROGRESS)))
        if job.holds is not None:
            _hold(facts, job.job_id, job.holds)
    facts.sharing = _sharing(parsed.sharing, facts.jobs)
    return facts


def _hold(facts: Facts, job_id: int | str, holds: _Holding) -> None:
    usual = own_thousandths(facts.jobs[job_id].job) / WHOLE
    facts.hold(
        job_id,
        [(gpu.node, gpu.gpu) for gpu in holds.gpus],
        share=[usual if gpu.share is None else gpu.share for gpu in holds.gpus],
        gpu_memory_gb=[gpu.gpu_memory_gb for gpu in holds.gpus],
        state=GrantState[holds.state.upper()],
        **holds.model_dump(exclude={"gpus", "state"}),
    )


def _as_input_error(error: ValidationError, path: str | Path) -> InputError:
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return InputError("is not a field of a snapshot", file=path, field=place)
    if first["type"] == "missing":
        return InputError("is missing", file=path, field=place)
    rule = first["msg"].removeprefix("Value error, ")
    hint = number_hint(first["input"]) if first["type"] in NOT_READ_AS_NUMBER else None
    return InputError(rule[:1].lower() + rule[1:], file=path, field=place, value=first["input"], hint=hint)
