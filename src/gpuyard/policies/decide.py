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


def decide(policy: Policy, snapshot: Snapshot) -> Decision:
    """Ask a policy what to do. Jobs with equal keys go by arrival."""
    try:
        return _decide(policy, snapshot)
    except (GpuyardError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        raise policy_failure(error, policy.name, *policy.parts) from error


def _decide(policy: Policy, snapshot: Snapshot) -> Decision:
    from gpuyard.policies.arrange import positions_in_order

    expected = policy.expected_speed(snapshot)
    seen = snapshot if expected is None else snapshot.expecting(expected)
    keys = _keys(policy, seen)
    priority, starved, holds_until = _priority(policy, seen)
    positions = positions_in_order(moment_of(snapshot).ties, priority, keys.key)
    order = moment_of(snapshot).active[positions]
    plan = policy.allocate.plan(seen, order)
    if policy.own_allocate:
        check_plan(policy.name, snapshot, order, plan)
    if starved is not None and starved.any() and starved[np.isin(moment_of(snapshot).active, plan.jobs)].any():
        holds_until = snapshot.now  # whoever gets GPUs now no longer starves, and ranks by its key again
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


def _priority(policy: Policy, snapshot: Snapshot) -> tuple[Ints, NDArray[np.bool_] | None, float]:
    """Rank jobs before their keys: by priority, then by the rules that put some of a priority first."""
    jobs = moment_of(snapshot).tables.jobs
    active = moment_of(snapshot).active
    if policy.knows_priorities and jobs.ranked[0]:
        priority = jobs.priority[active] * 4
    else:
        priority = np.zeros(len(active), dtype=np.int64)
    until, starved = math.inf, None
    if policy.starvation is not None:
        starved = policy.starvation.raised(snapshot)
        priority = priority + 2 * starved
        until = policy.starvation.next_s(snapshot)
    if policy.keeps_progress and snapshot.start_cost_s > 0:
        priority = priority + _LASTING_START.raised(snapshot)
        until = min(until, _LASTING_START.next_s(snapshot))
    return priority, starved, until
