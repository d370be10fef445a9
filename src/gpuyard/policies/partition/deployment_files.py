"""Deployments as JSON: what `gpuyard plan --format json` prints, and what whoever serves it reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import Field

from gpuyard.core.errors import InputError
from gpuyard.core.service import Service
from gpuyard.policies.partition.deployment import Deployment, cluster_of
from gpuyard.policies.partition.interface import PartitionPlan, Slice, Turn
from gpuyard.profiles.checking import NotNegative, Positive, Strict, check
from gpuyard.profiles.inference import BATCHES
from gpuyard.profiles.json_files import read_json
from gpuyard.profiles.step_files import write_whole

VERSION = "plan/1"


class _Gpus(Strict):
    node: str = Field(min_length=1)
    type: str = Field(min_length=1)
    count: int = Field(ge=1)


class _Service(Strict):
    service: int | str
    model: str
    rate: Positive
    slo_ms: Positive
    priority: int = 0
    gpu_types: str = ""


class _Turn(Strict):
    service: int | str
    model: str
    batch: int = Field(ge=1, le=BATCHES)
    rate: NotNegative
    takes_ms: Positive
    predicted_latency_ms: Positive
    slo_ms: Positive


class _Slice(Strict):
    gpu: int = Field(ge=0)
    share: float = Field(gt=0, le=1)
    memory_gb: NotNegative
    duty_ms: NotNegative
    models: list[_Turn]


class _Unserved(Strict):
    service: int | str
    model: str
    rate: NotNegative
    reason: str


class _File(Strict):
    gpuyard: str
    feasible: bool
    gpus_used: int
    violations: list[str]
    slices: list[_Slice]
    unserved: list[_Unserved]
    gpus: list[_Gpus] = Field(min_length=1)
    services: list[_Service] = Field(min_length=1)
    buffer: float = Field(ge=1, allow_inf_nan=False)
    interference: bool
    published: bool = False
    latencies: dict[str, dict[int, dict[int, Positive]]] | None = None


def as_json(of: Deployment) -> dict[str, Any]:
    """All of a deployment, and what its plan does not keep; GPUs are numbered through all nodes."""
    model = {each.service_id: each.model for each in of.services}
    kinds = [of.cluster.kinds[kind] for kind in of.cluster.node_kind]
    return {
        "gpuyard": VERSION,
        "feasible": not of.plan.unserved,
        "gpus_used": of.plan.gpus,
        "violations": [str(each) for each in of.violations()],
        "slices": [_slice(of, each) for each in of.plan.slices],
        "unserved": [
            {"service": name, "model": model[name], "rate": rate, "reason": of.plan.why[name]}
            for name, rate in of.plan.unserved.items()
        ],
        "gpus": [
            {"node": name, "type": kind.gpu_type, "count": kind.gpus}
            for name, kind in zip(of.cluster.node_names, kinds, strict=True)
        ],
        "services": [
            {
                "service": each.service_id, "model": each.model, "rate": each.rate_per_s, "slo_ms": each.slo_ms,
                "priority": each.priority, "gpu_types": each.gpu_types,
            }
            for each in of.services
        ],
        "buffer": of.buffer,
        "interference": of.interference,
        "published": of.published,
        "latencies": of.latencies,
    }  # fmt: skip


def _slice(of: Deployment, part: Slice) -> dict[str, Any]:
    """One slice; all slices of a service are loaded alike, and none with more than it can do."""
    capacity = of.plan.capacity()
    models = []
    for turn in part.turns:
        service = of.service[turn.service]
        load = min(service.rate_per_s / capacity[turn.service], 1.0)
        models.append({
            "service": turn.service,
            "model": service.model,
            "batch": turn.batch,
            "rate": turn.batch / part.period_s * load,
            "takes_ms": turn.takes_s * 1000,
            "predicted_latency_ms": part.answer_s * 1000,
            "slo_ms": service.slo_ms,
        })  # fmt: skip
    return {
        "gpu": of.gpu_number(part),
        "share": part.thousandths / 1000,
        "memory_gb": part.gpu_memory_gb,
        "duty_ms": part.period_s * 1000,
        "models": models,
    }


def save_plan(of: Deployment, path: Path) -> None:
    """Write a deployment to a file, whole or not at all."""
    write_whole(path, json.dumps(as_json(of), indent=1, allow_nan=False) + "\n")


def load_plan(path: Path) -> Deployment:
    """Read a deployment; InputError names file, field, value and rule."""
    found = check(_File, read_json(path, VERSION, "plan"), path, "plan")
    try:
        return _deployment(found)
    except InputError as error:
        raise error.located(path) from None


def _deployment(found: _File) -> Deployment:
    cluster = cluster_of([(each.count, each.type) for each in found.gpus], tuple(each.node for each in found.gpus))
    services = tuple(
        Service(
            each.service, each.model, each.rate, each.slo_ms, priority=each.priority, gpu_types=each.gpu_types
        ) for each in found.services
    )  # fmt: skip
    known = {each.service_id for each in services}
    places = [(name, gpu) for name, count in zip(cluster.node_names, cluster.node_gpus, strict=True)
              for gpu in range(int(count))]  # fmt: skip
    slices = tuple(_read_slice(each, places, known) for each in found.slices)
    missing = {each.service: each.rate for each in found.unserved}
    plan = PartitionPlan(slices, missing, {each.service: each.reason for each in found.unserved})
    return Deployment(
        services, cluster, plan, found.buffer, found.interference, found.published, found.latencies
    )  # fmt: skip


def _read_slice(part: _Slice, places: list[tuple[str, int]], services: set[int | str]) -> Slice:
    if part.gpu >= len(places):
        raise InputError(f"is not one of the {len(places)} GPUs", field="gpu", value=part.gpu)
    for turn in part.models:
        if turn.service not in services:
            raise InputError("is on a slice, but not among the services", field="service", value=turn.service)
    turns = tuple(Turn(turn.service, turn.batch, turn.takes_ms / 1000) for turn in part.models)
    return Slice(*places[part.gpu], round(part.share * 1000), part.memory_gb, turns, part.duty_ms / 1000)
