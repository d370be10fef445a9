"""Asking a policy of launching: what is wrong with the answer of a user's own is one line, in every world."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyard.policies.own_code import is_own, own_answer, own_code
from gpuyard.policies.timeshare.launch import LaunchClaim, Launching, LaunchTerms


def ask_terms(policy: Launching, claims: Sequence[LaunchClaim]) -> list[LaunchTerms]:
    """The terms of each client of one GPU; InputError where a user's policy raises, or answers something else."""
    if not is_own(policy):
        return policy.terms(claims)
    name = getattr(policy, "name", type(policy).__name__)
    with own_code(name, policy):
        terms = policy.terms(claims)
    if not isinstance(terms, list) or [type(each) for each in terms] != [LaunchTerms] * len(claims):
        raise own_answer(f"its terms must be a list of one LaunchTerms for each of {len(claims)} claims", name, policy)
    return terms
