"""From plain facts to a snapshot's arrays, and back."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.books import DEMANDS, RELEASING, Books, held_gpus, mark_touched
from gpuyard.core.cluster import Cluster, NodeGroup
from gpuyard.core.errors import InputError
from gpuyard.core.grants import WHOLE, GrantState
from gpuyard.core.ledger import Ledger
from gpuyard.core.workload import Workload
from gpuyard.policies.fact_rules import check_facts
from gpuyard.policies.facts import Facts, Holding, JobFact, NodeFact
from gpuyard.policies.holdings import build_held_jobs, hold_all
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.sharing_facts import NOTHING_KNOWN, SharingFacts
from gpuyard.policies.tables import JobProgress, Moment, Tables, done_at
from gpuyard.profiles import Zoo


class Instant(NamedTuple):
    """A world at one instant, as a snapshot keeps it."""

    cluster: Cluster
    workload: Workload
    moment: Moment
    ids: Any
    """Of all jobs of the workload, as the world spells them: a tuple, or an array."""
    leaving: Mapping[int, Holding] = MappingProxyType({})
    """What those on the way out hold; the books show only what nobody is promised yet."""
    nodes: Mapping[str, NodeFact] = MappingProxyType({})
    """Nodes of which others hold something: the cluster has what is left of them."""
    sharing: SharingFacts = NOTHING_KNOWN


def job_id_of(instant: Instant, number: int) -> Any:
    """The id of a job."""
    found = instant.ids[number]
    return found.item() if hasattr(found, "item") else found


class Standing(NamedTuple):
    """What facts say, in arrays: what a snapshot shows, and what a simulated world goes on from."""

    instant: Instant
    ledger: Ledger
    """Whose books are those of the instant."""


def instant_of(facts: Facts, zoo: Zoo) -> Instant:
    """Put facts into arrays; raises InputError or LedgerError where they contradict each other."""
    return standing_of(facts, zoo).instant


def standing_of(facts: Facts, zoo: Zoo) -> Standing:
    """The same with the ledger that all of it is held in."""
    if not facts.nodes:
        raise InputError("a snapshot needs at least one node", field="nodes")
    check_facts(facts)
    cluster = _cluster(facts)
    workload = Workload.from_jobs((fact.job for fact in facts.jobs.values()), source="snapshot")
    known = sorted(facts.jobs.values(), key=lambda fact: fact.job.arrival_s)  # as a workload sorts them
    jobs = build_held_jobs(workload, known, cluster, zoo, facts.recorded_on)
    ledger = hold_all(cluster, jobs, _demand(jobs, known), known)
    for number, node in enumerate(facts.nodes.values()):
        if not node.up:
            ledger.close(number)
    progress = _progress(facts, known, _speeds(jobs, ledger.books))
    mark_touched(ledger.books, [number for number, node in enumerate(facts.nodes.values()) if node.changed])
    moment = Moment(
        Tables(jobs, ledger.books, progress), _active(facts, known), quota_limits(facts.quotas, workload.tenants)
    )
    leaving = {number: fact.holds for number, fact in enumerate(known) if fact.holds and _is_leaving(fact)}
    partly = {name: node for name, node in facts.nodes.items() if node.taken}
    ids = tuple(fact.job.job_id for fact in known)
    return Standing(Instant(cluster, workload, moment, ids, leaving, partly, facts.sharing), ledger)


def _cluster(facts: Facts) -> Cluster:
    """The nodes as groups, in order; each keeps its name."""
    groups = [(kind, len(list(run))) for kind, run in groupby(facts.nodes.values(), key=lambda node: node.left)]
    return Cluster(tuple(NodeGroup(count, kind) for kind, count in groups), names=tuple(facts.nodes))


def _demand(jobs: Jobs, known: list[JobFact]) -> Floats:
    """What each job would like beside each GPU; of one on the way out only what it still has counts."""
    demand = jobs.demand_each.copy()
    for number, fact in enumerate(known):
        if fact.holds is not None and _is_leaving(fact):
            demand[number] = fact.holds.per_gpu[:DEMANDS]
    return demand


def _is_leaving(fact: JobFact) -> bool:
    return fact.holds is not None and fact.holds.state == GrantState.RELEASING


def _speeds(jobs: Jobs, books: Books) -> Floats:
    """The best speed of each job: of one that runs, on the GPU type that it has, and less if it is spread."""
    speed = jobs.best_speed.copy()
    for number in books.holders[: books.busy[0]]:
        nodes = books.gpu_node[held_gpus(books, number)]
        speed[number] = max(jobs.type_speed[number, jobs.node_type[nodes[0]]], 1e-9)
        speed[number] *= jobs.penalty[jobs.job_class[number]] if len(set(nodes.tolist())) > 1 else 1.0
    return speed


def _progress(facts: Facts, known: list[JobFact], usual: Floats) -> JobProgress:
    """How far each job is now: at one instant a line needs no slope, and so says what the facts say, to the digit."""
    now = facts.now_s
    runs = np.array([fact.holds is not None for fact in known])
    speed = np.array([one if fact.speed is None else fact.speed for fact, one in zip(known, usual, strict=True)])
    began = now - facts.start_cost_s  # by now it has worked for as long as a start takes
    since = np.array([began if fact.works_from_s is None else fact.works_from_s for fact in known])
    held_since = np.where(runs, [_held_since(facts, fact) for fact in known], np.inf)
    held_s = np.array([fact.attained_s for fact in known]) - np.where(runs, now - held_since, 0.0)
    last_held = [
        (since if fact.holds else fact.job.arrival_s) if fact.waiting_since_s is None else fact.waiting_since_s
        for fact, since in zip(known, held_since, strict=True)
    ]  # fmt: skip
    return JobProgress(
        done=np.array([fact.done_iterations for fact in known]),
        since=since,
        rate=np.zeros(len(known)),
        credit_s=np.zeros(1),
        speed=speed,
        held_s=np.maximum(held_s, 0.0),
        held_since=np.where(held_s < 0, now - np.array([fact.attained_s for fact in known]), held_since),
        last_held=np.array(last_held),
        longest_wait=np.array([fact.longest_wait_s for fact in known]),
    )


def _held_since(facts: Facts, fact: JobFact) -> float:
    """When a running job got its GPUs; unless anybody says so, as long ago as it takes to be done with its start."""
    if fact.held_since_s is not None:
        return fact.held_since_s
    if fact.works_from_s is not None:
        return min(fact.works_from_s - facts.start_cost_s, facts.now_s)
    return facts.now_s - 2 * facts.start_cost_s


def _active(facts: Facts, known: list[JobFact]) -> Ints:
    numbers: dict[Hashable, int] = {
        fact.job.job_id: number for number, fact in enumerate(known) if not _is_leaving(fact)
    }
    if not facts.order:
        return np.array(list(numbers.values()), dtype=np.int64)
    if len(facts.order) != len(numbers) or set(facts.order) != set(numbers):
        raise InputError("must name every job once", field="order", value=list(facts.order)[:5])
    return np.array([numbers[job_id] for job_id in facts.order], dtype=np.int64)


NO_LIMIT = 1 << 62


def quota_limits(quotas: dict[str, float], tenants: tuple[str, ...]) -> Ints:
    """Thousandths of GPUs that each tenant may hold; empty when nobody has a quota."""
    limits = [round(quotas.get(name, NO_LIMIT / WHOLE) * WHOLE) for name in tenants]
    return np.array(limits if quotas else [], dtype=np.int64)


def facts_of(instant: Instant, now_s: float, **further: Any) -> Facts:
    """Take an instant apart; what comes back makes an equal one. `further` are fields of Facts."""
    cluster, moment = instant.cluster, instant.moment
    books = moment.tables.books
    facts = Facts(now_s, sharing=instant.sharing, **further)
    for number, name in enumerate(cluster.node_names):
        left = cluster.kinds[cluster.node_kind[number]]
        kind, taken = (whole.kind, whole.taken) if (whole := instant.nodes.get(name)) else (left, {})
        facts.add_node(name, kind, up=bool(books.up[number]), changed=bool(books.touched[number]), taken=taken)
    leaving = [number for number in books.holders[: books.busy[0]] if books.state[number] == RELEASING]
    for number in np.sort(np.concatenate([moment.active, np.array(leaving, dtype=np.int64)])):
        fact = _job_fact(instant, int(number), now_s)
        facts.jobs[fact.job.job_id] = fact
    facts.order = tuple(job_id_of(instant, number) for number in moment.active.tolist())
    return facts


def _holding(books: Books, names: Sequence[str], number: int) -> Holding | None:
    if books.slot[number] < 0:
        return None
    lines = slice(int(books.first_line[number]), int(books.first_line[number] + books.lines[number]))
    where = zip(books.line_node[lines].tolist(), books.line_gpu[lines].tolist(), strict=True)
    return Holding(
        gpus=tuple((names[node], gpu - int(books.first_gpu[node])) for node, gpu in where),
        per_gpu=tuple(books.line_amounts[lines.start].tolist()),
        thousandths=tuple(books.line_part[lines].tolist()),
        gpu_memory_gb=tuple(books.line_memory[lines].tolist()),
        state=GrantState(int(books.state[number])),
    )


def _job_fact(instant: Instant, number: int, now_s: float) -> JobFact:
    names = instant.cluster.node_names
    jobs, books, progress = instant.moment.tables
    job = replace(
        instant.workload.job(number), job_id=job_id_of(instant, number), iterations=float(jobs.iterations[number]),
        duration_s=float("nan"),
    )  # fmt: skip
    holds = instant.leaving.get(number) or _holding(books, names, number)
    return JobFact(
        job,
        done_iterations=min(done_at(progress, number, now_s), float(jobs.iterations[number])),
        attained_s=float(progress.held_s[number] + max(now_s - progress.held_since[number], 0.0)),
        waiting_since_s=float(progress.last_held[number]),
        longest_wait_s=float(progress.longest_wait[number]),
        speed=float(progress.speed[number]),
        held_since_s=float(progress.held_since[number]) if holds else None,
        works_from_s=float(progress.since[number]) if holds else None,
        holds=holds,
    )
