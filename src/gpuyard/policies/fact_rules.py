"""What must hold for the facts of a snapshot, whichever world they come from: true numbers, no contradictions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from typing import Any

from gpuyard.core.arguments import check_number
from gpuyard.core.cluster import MOST_GPUS, RESOURCES
from gpuyard.core.errors import InputError
from gpuyard.core.grants import WHOLE, GrantState
from gpuyard.core.units import LARGEST
from gpuyard.policies.facts import Facts, JobFact

_AMOUNTS = ("done_iterations", "attained_s", "longest_wait_s")
_PAST = ("waiting_since_s", "held_since_s")
_TIMES = (*_PAST, "works_from_s")

_ROUNDING = 1e-9
"""Of times and work that were added up on the way, as a part of them."""


def check_facts(facts: Facts) -> None:
    """Raise InputError for the first fact that is no number, or that others contradict; it names the job."""
    check_number(facts.now_s, "now_s")
    for name in ("move_cost_s", "start_cost_s"):
        check_number(getattr(facts, name), name, least=0)
    for quota in facts.quotas.values():
        check_number(quota, "quotas", least=0, most=MOST_GPUS)
    for fact in facts.jobs.values():
        _check_numbers(fact)
        _check_times(facts.now_s, fact)
        if fact.holds is not None:
            _check_holding(facts, fact)
    _check_shared_gpus(facts, not_counted=GrantState.RESERVED)
    _check_shared_gpus(facts, not_counted=GrantState.RELEASING)


def _check_numbers(fact: JobFact) -> None:
    values = {name: getattr(fact, name) for name in (*_AMOUNTS, *_TIMES, "speed")}
    for name, value in values.items():
        if value is not None or name in _AMOUNTS:
            check_number(value, _field(fact, name), least=-LARGEST if name in _TIMES else 0)
    if fact.speed == 0:
        raise InputError("must be above 0", field=_field(fact, "speed"), value=fact.speed)
    check_number(fact.job.arrival_s, _field(fact, "arrival_s"), least=0)
    check_number(fact.job.gpus, _field(fact, "gpus"), least=0, most=MOST_GPUS)


def _check_times(now_s: float, fact: JobFact) -> None:
    past = {name: getattr(fact, name) for name in _PAST} | {"arrival_s": fact.job.arrival_s}
    for name, value in past.items():
        if value is not None and value > now_s + abs(now_s) * _ROUNDING:
            raise InputError(f"must not be after now_s, {now_s:g}", field=_field(fact, name), value=value)
    if fact.done_iterations > fact.job.iterations * (1 + _ROUNDING):
        rule = f"is more than all its iterations, {fact.job.iterations:g}"
        raise InputError(rule, field=_field(fact, "done_iterations"), value=fact.done_iterations)


def _check_holding(facts: Facts, fact: JobFact) -> None:
    assert fact.holds is not None
    where, gpus = _field(fact, "holds"), fact.holds.gpus
    for name, amount in zip(RESOURCES, fact.holds.per_gpu, strict=True):
        check_number(amount, f"{where}, {name}", least=0)
    for node, gpu in gpus:
        if node not in facts.nodes:
            raise InputError("is not one of the nodes", field=where, value=node)
        if isinstance(gpu, bool) or not isinstance(gpu, int) or not 0 <= gpu < facts.nodes[node].kind.gpus:
            has = facts.nodes[node].kind.gpus
            raise InputError(f"is not a GPU of node {node}, which has {has}, counted from 0", field=where, value=gpu)
        if not facts.nodes[node].up:
            raise InputError("is a node that is not up: nobody can hold a part of it", field=where, value=node)
    wanted = max(int(fact.job.gpus), 1)
    if len(set(gpus)) != len(gpus):
        raise InputError("names a GPU twice", field=where, value=_told(gpus))
    if len(gpus) != wanted:
        raise InputError(f"is not as many GPUs as the job needs, {wanted}", field=where, value=_told(gpus))
    if fact.holds.state != GrantState.RELEASING and len(set(fact.holds.thousandths)) > 1:
        rule = "must be the same share of each GPU, unless it is releasing: a plan gives a job as much of each"
        raise InputError(rule, field=where, value=[part / WHOLE for part in fact.holds.thousandths])


def _check_shared_gpus(facts: Facts, not_counted: GrantState) -> None:
    """Shares of one GPU are not more than it: neither of those who are there now, nor of those who will be."""
    holders: dict[tuple[str, int], list[tuple[Hashable, int]]] = defaultdict(list)
    for fact in facts.jobs.values():
        if fact.holds is not None and fact.holds.state != not_counted:
            for place, thousandths in zip(fact.holds.gpus, fact.holds.thousandths, strict=True):
                holders[place].append((fact.job.job_id, thousandths))
    for place, sharing in holders.items():
        if sum(thousandths for _, thousandths in sharing) > WHOLE:
            ids = ", ".join(str(job_id) for job_id, _ in sharing)
            rule = f"is held by jobs {ids}, which together need more than one GPU"
            raise InputError(rule, field="holds", value=_told((place,)))


def _told(gpus: tuple[tuple[Any, Any], ...]) -> str:
    return " ".join(f"{node}:{gpu}" for node, gpu in gpus)


def _field(fact: JobFact, name: str) -> str:
    return f"{name} of job {fact.job.job_id}"
