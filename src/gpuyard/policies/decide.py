"""One decision: order the jobs, then let the allocation make a plan. Every engine decides through here."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.errors import GpuyardError
from gpuyard.policies.order.lasting_start import LastingStart
from gpuyard.policies.own_code import not_numbers, own_answer, policy_failure
from gpuyard.policies.plan import Keys, Plan
from gpuyard.policies.plan_check import check_plan
from gpuyard.policies.policy import Policy
from gpuyard.policies.snapshot import Snapshot, moment_of

_LASTING_START = LastingStart()


class Decision(NamedTuple):
    """A plan, the order of the active jobs it was made from with the keys behind it, and how long both hold."""

    plan: Plan
    order: Ints
    keys: Keys
    priority: Ints
    positions: Ints  # order[i] is the snapshot's active[positions[i]], as are keys and priority
    starved: NDArray[np.bool_] | None  # which active jobs the starvation rule put first; None without one
    holds_until: float  # the rules that put jobs first may act differently from then on


class Ordered(NamedTuple):
    """The order of the active jobs alone, as in a decision."""

    order: Ints
    keys: Keys
    priority: Ints
    positions: Ints
    starved: NDArray[np.bool_] | None
    holds_until: float


def ordered(policy: Policy, snapshot: Snapshot) -> Ordered:
    """Ask a policy's order who is first, for those who place jobs by other means."""
    try:
        return _ordered(policy, snapshot)[0]
    except (GpuyardError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        raise policy_failure(error, policy.name, *policy.parts) from error


def decide(policy: Policy, snapshot: Snapshot) -> Decision:
    """Ask a policy what to do. Jobs with equal keys go by arrival."""
    try:
        return _decide(policy, snapshot)
    except (GpuyardError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        raise policy_failure(error, policy.name, *policy.parts) from error


def _ordered(policy: Policy, snapshot: Snapshot) -> tuple[Ordered, Snapshot, _Ranks]:
    """The order, the snapshot with the times that it goes by, and the rules behind it."""
    from gpuyard.policies.arrange import positions_in_order

    expected = policy.expected_speed(snapshot)
    seen = snapshot if expected is None else snapshot.expecting(expected)
    keys = _keys(policy, seen)
    ranks = _ranks(policy, seen)
    positions = positions_in_order(moment_of(snapshot).ties, ranks.priority, keys.key)
    order = moment_of(snapshot).active[positions]
    return Ordered(order, keys, ranks.priority, positions, ranks.starved, ranks.hold_until), seen, ranks


def _decide(policy: Policy, snapshot: Snapshot) -> Decision:
    (order, keys, priority, positions, starved, hold_until), seen, ranks = _ordered(policy, snapshot)
    if policy.own_allocate:
        plan = policy.allocate.plan(seen, order.copy())  # to be written into, if it likes
        check_plan(policy.name, snapshot, order, plan)
    else:
        plan = policy.allocate.plan(seen, order)
    again = _changes_ranks(snapshot, plan, ranks) or _changes_types(snapshot, plan)
    holds_until = snapshot.now if again else hold_until
    return Decision(plan, order, keys, priority, positions, starved, holds_until)


def _keys(policy: Policy, snapshot: Snapshot) -> Keys:
    """Ask for keys, and refuse what is not one number for each job: kernels would read beyond its end."""
    ordered = policy.order(snapshot)
    keys = ordered if isinstance(ordered, Keys) else Keys(ordered, math.nan)
    return _checked(policy, snapshot, keys) if policy.own_order else keys


def _checked(policy: Policy, snapshot: Snapshot, keys: Keys) -> Keys:
    key = _numbers(policy, snapshot, "key", keys.key)
    if np.isnan(key).any():
        job = snapshot.job_id[int(np.argmax(np.isnan(key)))]
        rule = f"its order gave job {job} the key NaN at {snapshot.now:g} s; a key must be a number"
        raise own_answer(rule, policy.name, policy.order)
    rates = {name: getattr(keys, name) for name in ("running_rate", "waiting_rate")}
    return Keys(key, **{name: _rate(policy, snapshot, name, rate) for name, rate in rates.items()})


def _rate(policy: Policy, snapshot: Snapshot, name: str, rate: Any) -> Floats | float:
    """One number for all jobs, or one for each."""
    if isinstance(rate, (int, float, np.integer, np.floating)):
        known: Floats | float = float(rate)
    else:
        known = _numbers(policy, snapshot, name, rate)
    unknown = name == "running_rate" and isinstance(known, float) and math.isnan(known)
    if not unknown and not np.isfinite(known).all():
        rule = f"its order gave a {name} that is not finite; return keys alone where rates are not known"
        raise own_answer(rule, policy.name, policy.order)
    return known


def _numbers(policy: Policy, snapshot: Snapshot, name: str, given: Any) -> Floats:
    problem = not_numbers(given, len(snapshot.active))
    if problem:
        rule = f"its order must return one {name} for each active job, {problem}"
        raise own_answer(rule, policy.name, policy.order)
    return np.asarray(given, dtype=np.float64)


class _Ranks(NamedTuple):
    """What goes before the keys of the active jobs: a priority, with the rules that put some of it first, if any."""

    priority: Ints
    starved: NDArray[np.bool_] | None = None
    just_started: NDArray[np.bool_] | None = None  # who has not made up for its start
    hold_until: float = math.inf


def _ranks(policy: Policy, snapshot: Snapshot) -> _Ranks:
    jobs = moment_of(snapshot).tables.jobs
    active = moment_of(snapshot).active
    if policy.knows_priorities and jobs.ranked[0]:
        priority = jobs.priority[active] * 4
    else:
        priority = np.zeros(len(active), dtype=np.int64)
    until, starved, just_started = math.inf, None, None
    if policy.starvation is not None:
        starved = policy.starvation.raised(snapshot)
        priority = priority + 2 * starved
        until = policy.starvation.next_s(snapshot)
    if policy.keeps_progress and snapshot.start_cost_s > 0:
        just_started = _LASTING_START.raised(snapshot)
        priority = priority + just_started
        until = min(until, _LASTING_START.next_s(snapshot))
    return _Ranks(priority, starved, just_started, until)


def _changes_ranks(snapshot: Snapshot, plan: Plan, ranks: _Ranks) -> bool:
    """Whether the plan itself makes the rules rank somebody otherwise from the next round on."""
    active, tables = moment_of(snapshot).active, moment_of(snapshot).tables
    for raised, changed in (
        (ranks.starved, (plan.jobs, plan.stopped)),  # who gets GPUs, or loses those it waited for, no longer starves
        (ranks.just_started, (plan.stopped,)),  # of a start that is over nothing is left to make up for
    ):
        if raised is not None and raised.any() and np.isin(active[raised], np.concatenate(changed)).any():
            return True
    if ranks.just_started is None:
        return False
    starts = plan.jobs[tables.books.slot[plan.jobs] < 0]
    return bool((tables.progress.held_s[starts] > 0).any())  # who starts again has a start to make up for


def _changes_types(snapshot: Snapshot, plan: Plan) -> bool:
    """Whether the plan moves somebody to another GPU type: who waits is admitted by type, and may be from then on."""
    if len(snapshot.cluster.gpu_types) == 1:
        return False
    jobs, books, _ = moment_of(snapshot).tables
    running = np.flatnonzero(books.slot[plan.jobs] >= 0)
    here = books.gpu_node[books.line_gpu[books.first_line[plan.jobs[running]]]]
    there = books.gpu_node[plan.gpu_ids[plan.first[running]]]
    return bool((jobs.node_type[here] != jobs.node_type[there]).any())
