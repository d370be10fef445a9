"""A decision in names instead of numbers: what other programs read, and what worlds other than the simulator apply."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gpuyard.core.books import Books
from gpuyard.core.cluster import RESOURCES
from gpuyard.core.grants import WHOLE, Grant, Part
from gpuyard.core.ledger import Ledger
from gpuyard.policies.decide import Decision
from gpuyard.policies.explain import explain
from gpuyard.policies.snapshot import Snapshot, moment_of

Entry = dict[str, Any]


def carry_out(snapshot: Snapshot, decision: Decision, ledger: Ledger) -> None:
    """Let a ledger that knows jobs by their ids give each what the decision says, and take back what it takes away.

    Raises LedgerError, and changes nothing, where that is not free.
    """
    stopped = [snapshot.job_id_of(int(job)) for job in decision.plan.stopped]
    ledger.carry_out(planned_grants(snapshot, decision), released=stopped)


def planned_grants(snapshot: Snapshot, decision: Decision) -> tuple[Grant, ...]:
    """What everybody is to hold who starts, or goes on elsewhere or with other amounts."""
    return tuple(_grant(snapshot, decision, position) for position in range(len(decision.plan.jobs)))


def named_plan(snapshot: Snapshot, decision: Decision) -> dict[str, list[Entry]]:
    """Who starts with what and where, who goes on elsewhere or with other amounts, who stops, who waits for what."""
    plan, books = decision.plan, moment_of(snapshot).tables.books
    told: dict[str, list[Entry]] = {"start": [], "change": [], "stop": [], "wait": []}
    for job, grant in zip(plan.jobs, planned_grants(snapshot, decision), strict=True):
        told["change" if books.slot[job] >= 0 else "start"].append(_entry(grant))
    told["stop"] = [{"job": snapshot.job_id_of(int(job))} for job in plan.stopped]
    told["wait"] = [asdict(waiting) for waiting in explain(snapshot, decision)]
    return told


def _grant(snapshot: Snapshot, decision: Decision, position: int) -> Grant:
    plan, books, names = decision.plan, moment_of(snapshot).tables.books, snapshot.cluster.node_names
    job = int(plan.jobs[position])
    amounts = dict(zip(RESOURCES, plan.amounts[position].tolist(), strict=True))
    memory = _held_memory(books, job)
    parts = []
    for gpu in plan.gpu_ids[plan.first[position] : plan.first[position + 1]].tolist():
        node = books.gpu_node[gpu]
        number = int(gpu - books.first_gpu[node])
        parts.append(Part(names[node], number, int(books.part[job]), memory.get(gpu, 0.0), amounts))
    return Grant(snapshot.job_id_of(job), tuple(parts))


def _held_memory(books: Books, job: int) -> dict[int, float]:
    """GB of each GPU that a job has. Plans say nothing of it: where it stays it keeps it, elsewhere the world knows."""
    if books.slot[job] < 0:
        return {}
    first = int(books.first_line[job])
    held = slice(first, first + int(books.lines[job]))
    return dict(zip(books.line_gpu[held].tolist(), books.line_memory[held].tolist(), strict=True))


def _entry(grant: Grant) -> Entry:
    gpus = [{"node": part.node, "gpu": part.gpu, "share": part.thousandths / WHOLE} for part in grant.parts]
    return {"job": grant.holder, "gpus": gpus} | {name: grant.total(name) for name in RESOURCES}
