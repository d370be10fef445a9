"""How a simulated GPU divides its time: the policy by its name, and its answers, checked where it is a user's own."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real

from gpuyard.core.errors import InputError
from gpuyard.policies.own_code import is_own, own_answer, own_code
from gpuyard.policies.registry import TIMESHARES
from gpuyard.policies.timeshare import Claim, TimeSharing

LEAST_RATE = 1e-9
"""Of the fastest: slower than this nobody would ever be done."""


def simulated_sharing(written: str) -> TimeSharing:
    """Find a policy of time sharing, shipped, installed or of one's own, that a simulated GPU can go by."""
    found = TIMESHARES.find(written)
    if not isinstance(found, TimeSharing):
        rule = "is not derived from gpuyard.policies.timeshare.TimeSharing"
        raise InputError(rule, field="sharing", value=written)
    if is_own(found) and found.takes_turns:
        rule = "takes turns: a simulated GPU knows those of fifo only, and would never ask for its rates"
        raise InputError(rule, field="sharing", value=written)
    return found


def ask_rates(sharing: TimeSharing, claims: Sequence[Claim]) -> list[float]:
    """How fast each claim runs; InputError where a user's policy raises, or answers something else."""
    if not is_own(sharing):
        return sharing.rates(claims)
    with own_code(sharing.called, sharing):
        rates = sharing.rates(claims)
    if not _are_rates(rates, len(claims)):
        rule = f"its rates must be a list of {len(claims)}, one for each claim, from 0 to 1 and not all 0"
        raise own_answer(rule, sharing.called, sharing)
    return rates


def _are_rates(rates: object, count: int) -> bool:
    if not isinstance(rates, list) or len(rates) != count or not all(map(_is_part, rates)):
        return False
    return bool(max(rates) >= LEAST_RATE)


def _is_part(number: object) -> bool:
    return isinstance(number, Real) and 0.0 <= float(number) <= 1.0


def ask_held_share(sharing: TimeSharing, share: float) -> float:
    """What a process with this share keeps of a GPU; InputError where a user's policy says what is no part of one."""
    if not is_own(sharing):
        return sharing.held_share(share)
    with own_code(sharing.called, sharing):
        held = sharing.held_share(share)
    if not _is_part(held):
        raise own_answer("its held_share must be a part of a GPU, from 0 to 1", sharing.called, sharing)
    return float(held)
