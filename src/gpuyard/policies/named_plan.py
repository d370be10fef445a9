"""A decision in names instead of numbers: what other programs read, and what worlds other than the simulator apply."""

from __future__ import annotations

from typing import Any

from gpuyard.core.books import Books
from gpuyard.core.cluster import RESOURCES
from gpuyard.core.grants import WHOLE
from gpuyard.policies.decide import Decision
from gpuyard.policies.plan import PLACED, REASONS
from gpuyard.policies.snapshot import Snapshot, moment_of

Entry = dict[str, Any]


def named_plan(snapshot: Snapshot, decision: Decision) -> dict[str, list[Entry]]:
    """Who starts with what and where, who goes on elsewhere or with other amounts, who stops, who waits and why."""
    plan, books = decision.plan, moment_of(snapshot).tables.books
    told: dict[str, list[Entry]] = {"start": [], "change": [], "stop": [], "wait": []}
    for position, job in enumerate(plan.jobs):
        told["change" if books.slot[job] >= 0 else "start"].append(_grant(snapshot, books, decision, position))
    told["stop"] = [{"job": _job_id(snapshot, int(job))} for job in plan.stopped]
    told["wait"] = [
        {"job": _job_id(snapshot, int(job)), "reason": REASONS[reason]}
        for job, reason in zip(decision.order, plan.reasons, strict=True)
        if reason != PLACED
    ]
    return told


def _grant(snapshot: Snapshot, books: Books, decision: Decision, position: int) -> Entry:
    plan = decision.plan
    job = int(plan.jobs[position])
    ids = plan.gpu_ids[plan.first[position] : plan.first[position + 1]]
    share = float(books.part[job]) / WHOLE
    gpus = [
        {"node": snapshot.cluster.node_names[books.gpu_node[gpu]],
         "gpu": int(gpu - books.first_gpu[books.gpu_node[gpu]]), "share": share}
        for gpu in ids
    ]  # fmt: skip
    amounts = {name: float(amount) * len(ids) for name, amount in zip(RESOURCES, plan.amounts[position], strict=True)}
    return {"job": _job_id(snapshot, job), "gpus": gpus} | amounts


def _job_id(snapshot: Snapshot, number: int) -> Any:
    return snapshot.job_id_of(number)
