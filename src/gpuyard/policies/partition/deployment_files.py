"""Deployments as JSON: what `gpuyard plan --format json` prints, and what whoever serves it reads."""

from __future__ import annotations

import json
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import Any

from gpuyard.core.application import Application, Stage
from gpuyard.core.errors import InputError
from gpuyard.core.service import Service
from gpuyard.policies.partition.deployment import Deployment, cluster_of
from gpuyard.policies.partition.deployment_rules import check_deployment, check_unique
from gpuyard.policies.partition.deployment_schema import ApplicationEntry, DeviceEntry, PlanFile, SliceEntry
from gpuyard.policies.partition.interface import PartitionPlan, Slice, Turn
from gpuyard.policies.partition.rooms import Rooms
from gpuyard.profiles.checking import check
from gpuyard.profiles.inference import InferenceModel, Interference, ServingGpu, TensorKind, Traffic
from gpuyard.profiles.json_files import read_json
from gpuyard.profiles.step_files import write_whole

VERSION = "plan/1"


def as_json(of: Deployment) -> dict[str, Any]:
    """All of a deployment, and what its plan does not keep; GPUs are numbered through all nodes."""
    model = {each.service_id: each.model for each in of.services}
    kinds = [of.cluster.kinds[kind] for kind in of.cluster.node_kind]
    rooms = Rooms(of)
    return {
        "gpuyard": VERSION,
        "feasible": not of.plan.unserved,
        "tail": of.plan.tail,
        "gpus_used": of.plan.gpus,
        "violations": [str(each) for each in of.violations()],
        "slices": [_slice(rooms, number) for number in range(len(of.plan.slices))],
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
                "capacity": rooms.able(each.service_id),
                "headroom": rooms.headroom(each.service_id),
                "predicted_latency_ms": _known(of.answer_ms(each.service_id)),
                "expected_missed": rooms.missed(each.service_id),
            }
            for each in of.services
        ],
        "buffer": of.buffer,
        "interference": of.interference,
        "published": of.published,
        "latencies": of.latencies,
        "applications": [_application(of, each) for each in of.applications],
        "devices": {key: _device(gpu) for key, gpu in of.devices.items()} if of.devices else None,
    }  # fmt: skip


def _device(gpu: ServingGpu) -> dict[str, Any]:
    models = {name: {key: value for key, value in asdict(model).items() if key != "name"}
              for name, model in gpu.models.items()}  # fmt: skip
    return {"memory_mb": gpu.memory_mb, "interference": list(gpu.interference), "models": models}


def _read_device(key: str, of: DeviceEntry) -> ServingGpu:
    models = {
        name: InferenceModel(
            name, each.latency_ms, tuple(each.gathering_ms), each.memory_mb, each.input_bytes,
            {batch: Traffic(*pair) for batch, pair in each.traffic.items()},
            TensorKind(*each.input), TensorKind(*each.output),
        ) for name, each in of.models.items()
    }  # fmt: skip
    return ServingGpu(key, of.memory_mb, Interference(*of.interference), models)


def _application(of: Deployment, each: Application) -> dict[str, Any]:
    return {
        "application": each.name,
        "rate": each.rate_per_s,
        "slo_ms": each.slo_ms,
        "predicted_latency_ms": _known(of.end_to_end.longest_ms(each)),
        "stages": [_stage(of, each, stage) for stage in each.stages],
    }


def _stage(of: Deployment, application: Application, stage: Stage) -> dict[str, Any]:
    name, times = application.service_id(stage.name), of.end_to_end.times(application)[stage.name]
    return {
        "stage": stage.name,
        "service": name,
        "model": stage.model,
        "after": list(stage.after),
        "per_request": stage.per_request,
        "slo_ms": of.service[name].slo_ms,
        "predicted_latency_ms": _known(times.answer_s * 1000.0),
        "asked_at_once": _known(times.bunch),
    }


def _known(figure: float) -> float | None:
    """None where nothing answers."""
    return figure if figure < inf else None


def _slice(rooms: Rooms, number: int) -> dict[str, Any]:
    """One slice."""
    of, part = rooms.of, rooms.of.plan.slices[number]
    models = [
        {
            "service": room.turn.service,
            "model": of.service[room.turn.service].model,
            "batch": room.turn.batch,
            "rate": room.rate,
            "headroom": rooms.turn_headroom(room),
            "takes_ms": room.turn.takes_s * 1000,
            "predicted_latency_ms": part.answer_s * 1000,
            "slo_ms": of.service[room.turn.service].slo_ms,
        }
        for room in rooms.turns_of(number)
    ]
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
    found = check(PlanFile, read_json(path, VERSION, "plan"), path, "plan")
    try:
        return _deployment(found)
    except InputError as error:
        raise error.located(path) from None


def _deployment(found: PlanFile) -> Deployment:
    devices = {key: _read_device(key, each) for key, each in (found.devices or {}).items()} or None
    cluster = cluster_of(
        [(each.count, each.type) for each in found.gpus], tuple(each.node for each in found.gpus), devices
    )
    applications = tuple(_read_application(each) for each in found.applications)
    at_once = {one.service_id(stage.name): stage.at_once for one in applications for stage in one.stages}
    services = tuple(
        Service(
            each.service, each.model, each.rate, each.slo_ms, priority=each.priority, gpu_types=each.gpu_types,
            at_once=at_once.get(str(each.service), 1),
        ) for each in found.services
    )  # fmt: skip
    check_unique(services)
    known = {each.service_id for each in services}
    places = [(name, gpu) for name, count in zip(cluster.node_names, cluster.node_gpus, strict=True)
              for gpu in range(int(count))]  # fmt: skip
    slices = tuple(_read_slice(each, places, known) for each in found.slices)
    missing = {each.service: each.rate for each in found.unserved}
    plan = PartitionPlan(slices, missing, {each.service: each.reason for each in found.unserved}, found.tail)
    whole = Deployment(
        services, cluster, plan, found.buffer, found.interference, found.published, found.latencies, applications,
        devices,
    )  # fmt: skip
    check_deployment(whole)
    return whole


def _read_application(of: ApplicationEntry) -> Application:
    stages = tuple(
        Stage(each.stage, each.model, tuple(each.after), each.per_request, each.slo_ms) for each in of.stages
    )
    return Application(of.application, of.rate, of.slo_ms, stages)


def _read_slice(part: SliceEntry, places: list[tuple[str, int]], services: set[int | str]) -> Slice:
    if part.gpu >= len(places):
        raise InputError(f"is not one of the {len(places)} GPUs", field="gpu", value=part.gpu)
    for turn in part.models:
        if turn.service not in services:
            raise InputError("is on a slice, but not among the services", field="service", value=turn.service)
    turns = tuple(Turn(turn.service, turn.batch, turn.takes_ms / 1000) for turn in part.models)
    return Slice(*places[part.gpu], round(part.share * 1000), part.memory_gb, turns, part.duty_ms / 1000)
