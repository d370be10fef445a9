"""One decision: order the jobs, then let the allocation make a plan. Every engine decides through here."""

from __future__ import annotations

import math
from pathlib import Path
from traceback import extract_tb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.errors import GpuyardError, InputError
from gpuyard.policies.order.lasting_start import LastingStart
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
    from gpuyard.policies.arrange import arrange

    try:
        expected = policy.expected_speed(snapshot)
        seen = snapshot if expected is None else snapshot.expecting(expected)
        keys = _keys(policy, seen)
        priority, starved, holds_until = _priority(policy, seen)
        positions = arrange(moment_of(snapshot).ties, priority, keys.key)
        order = moment_of(snapshot).active[positions]
        plan = policy.allocate.plan(seen, order)
        if not type(policy.allocate).__module__.startswith("gpuyard."):
            check_plan(policy.name, snapshot, order, plan)
        if starved is not None and starved[np.isin(moment_of(snapshot).active, plan.jobs)].any():
            holds_until = snapshot.now  # whoever gets GPUs now no longer starves, and ranks by its key again
    except GpuyardError:
        raise
    except Exception as error:
        raise _failed(policy, error) from error
    return Decision(plan, order, keys, priority, positions, starved, holds_until)


def _failed(policy: Policy, error: Exception) -> InputError:
    """Name the line of the user's own policy that an error came from; numpy and others raise on behalf of that line."""
    frames = extract_tb(error.__traceback__)
    package = str(Path(__file__).resolve().parents[1])
    frame = next((frame for frame in frames if not frame.filename.startswith(package)), frames[-1])
    rule = f"raised {type(error).__name__}: {error}, in {frame.name}: {frame.line}"
    return InputError(rule, file=frame.filename, row=frame.lineno, field="policy", value=policy.name)


def _keys(policy: Policy, snapshot: Snapshot) -> Keys:
    """Ask for keys, and refuse what is not one number for each job: kernels would read beyond its end."""
    ordered = policy.order(snapshot)
    keys = ordered if isinstance(ordered, Keys) else Keys(ordered, math.nan)
    found, wanted = getattr(keys.key, "shape", None), snapshot.active.shape
    if found != wanted:
        what = type(keys.key).__name__ if found is None else f"an array of shape {found}"
        rule = f"its order must return one key for each active job, an array of shape {wanted}, not {what}"
        raise InputError(rule, field="policy", value=policy.name)
    key: Floats = np.asarray(keys.key, dtype=np.float64)
    if np.isnan(key).any():
        job = snapshot.job_id[int(np.argmax(np.isnan(key)))]
        rule = f"its order gave job {job} the key NaN at {snapshot.now:g} s; a key must be a number"
        raise InputError(rule, field="policy", value=policy.name)
    return keys._replace(key=key)


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
