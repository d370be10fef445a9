"""What jobs hold, from facts into the books behind a snapshot.

Books have one holder of each thing. Where somebody is promised what another is still releasing, they show it as the
successor's: to whoever decides, the one who leaves has only what nobody is promised yet.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from gpuyard.core.arrays import Floats
from gpuyard.core.cluster import RESOURCES, Cluster
from gpuyard.core.grants import GrantState, Part
from gpuyard.core.ledger import Ledger
from gpuyard.core.workload import Workload
from gpuyard.policies.facts import Holding, JobFact, own_thousandths
from gpuyard.policies.jobs import Jobs, build_jobs
from gpuyard.profiles import Zoo


def build_held_jobs(
    workload: Workload, known: list[JobFact], cluster: Cluster, zoo: Zoo, recorded_on: str | None
) -> Jobs:
    """The tables of jobs: one that holds another share of its GPUs than it asks for is decided about as such a slice.

    Who competes with others for all of a GPU, with no part of its own, is decided about as one that has it.

    Its work is what it is; what it can use beside its GPUs is so much less or more.
    """
    jobs = build_jobs(workload, cluster, zoo, recorded_on=recorded_on, refuse=False)
    own = np.array([own_thousandths(fact.job) for fact in known])
    held = own.copy()
    for number, fact in enumerate(known):
        if fact.holds is not None:
            held[number] = max(fact.holds.thousandths) or own[number]
    if np.array_equal(own, held):
        return jobs
    part = held / own
    sliced = replace(
        workload, iterations=jobs.iterations, cpus=workload.cpus * part, memory_gb=workload.memory_gb * part,
        storage_mbps=workload.storage_mbps * part,
    )  # fmt: skip
    return build_jobs(sliced, cluster, zoo, recorded_on=recorded_on, refuse=False, thousandths=held)


def hold_all(cluster: Cluster, jobs: Jobs, demand: Floats, known: list[JobFact]) -> Ledger:
    """The ledger in which everybody holds what the facts say; LedgerError for the first for whom it is not free."""
    holding = [(number, fact.job.job_id, fact.holds) for number, fact in enumerate(known) if fact.holds is not None]
    leaving = [each for each in holding if each[2].state == GrantState.RELEASING]
    present = [each for each in holding if each[2].state != GrantState.RESERVED]
    if leaving and len(present) < len(holding):
        _enter(Ledger.of(cluster, jobs.gpus, jobs.part), present)  # whatever is promised, those who are there fit
    ledger = Ledger.of(cluster, jobs.gpus, jobs.part, demand)
    _enter(ledger, (each for each in holding if each[2].state != GrantState.RELEASING))
    for number, job_id, holds in leaving:
        parts = holds.parts if len(present) == len(holding) else tuple(_unpromised(ledger, holds.parts))
        ledger.hold(number, parts, holds.state, name=f"job {job_id}")
    return ledger


def _enter(ledger: Ledger, holding: Iterable[tuple[int, Hashable, Holding]]) -> None:
    for number, job_id, holds in holding:
        ledger.hold(number, holds.parts, holds.state, name=f"job {job_id}")


def _unpromised(ledger: Ledger, parts: tuple[Part, ...]) -> Iterator[Part]:
    """Of these parts what is free in a ledger of those who stay and those who are promised something."""
    books = ledger.books
    left: dict[str, Floats] = {}
    for part in parts:
        node = ledger.nodes.index(part.node)
        assert part.gpu is not None
        gpu = int(books.first_gpu[node]) + part.gpu
        free = left.setdefault(part.node, books.free[node].copy())
        amounts = {name: min(part.amounts[name], max(float(free[r]), 0.0)) for r, name in enumerate(RESOURCES)}
        free -= list(amounts.values())
        memory = min(part.gpu_memory_gb, max(float(books.gpu_memory_free[gpu]), 0.0))
        yield Part(part.node, part.gpu, min(part.thousandths, int(books.gpu_free[gpu])), memory, amounts)
