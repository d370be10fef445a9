"""A plan of slices as other programs read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuyard.core.cluster import Cluster
from gpuyard.core.service import Service
from gpuyard.policies.partition.interface import PartitionPlan, Slice


def as_json(
    plan: PartitionPlan, services: Sequence[Service], cluster: Cluster, violations: list[str]
) -> dict[str, Any]:
    """All of a plan, and what it does not keep; GPUs are numbered through all nodes."""
    by_id = {service.service_id: service for service in services}
    first = dict(zip(cluster.node_names, (0, *cluster.node_gpus.cumsum().tolist()), strict=False))
    capacity = plan.capacity()
    return {
        "feasible": not plan.unserved,
        "gpus_used": plan.gpus,
        "violations": violations,
        "slices": [
            {
                "gpu": first[each.node] + each.gpu,
                "share": each.thousandths / 1000,
                "duty_ms": round(each.period_s * 1000, 6),
                "models": _models(each, by_id, capacity),
            }
            for each in plan.slices
        ],
        "unserved": [
            {"model": name, "rate": round(rate, 6), "reason": plan.why[name]} for name, rate in plan.unserved.items()
        ],
    }


def _models(
    part: Slice, services: Mapping[int | str, Service], capacity: Mapping[int | str, float]
) -> list[dict[str, Any]]:
    """The turns of a slice; all slices of a service are loaded alike, and none with more than it can do."""
    return [
        {
            "model": turn.service,
            "batch": turn.batch,
            "rate": round(
                turn.batch / part.period_s * min(services[turn.service].rate_per_s / capacity[turn.service], 1), 6
            ),
            "predicted_latency_ms": round(part.answer_s * 1000, 6),
            "slo_ms": services[turn.service].slo_ms,
        }
        for turn in part.turns
    ]
