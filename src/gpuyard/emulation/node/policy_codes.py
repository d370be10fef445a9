"""The sharing policy of a node as the number and options that the library knows it by."""

from __future__ import annotations

from itertools import count, takewhile

from gpuyard.emulation.node.ground import SharingRecord, ground
from gpuyard.policies.naming import options_of
from gpuyard.policies.timeshare import TIME_SHARINGS, TimeSharing


def codes() -> dict[int, type[TimeSharing]]:
    """Return each policy by its number."""
    names = takewhile(bool, (ground().policy_name(number) for number in count()))
    return {number: TIME_SHARINGS[name.decode()] for number, name in enumerate(names)}


def written_sharing(sharing: TimeSharing) -> SharingRecord:
    """Write a policy with its options."""
    number = next(code for code, policy in codes().items() if type(sharing) is policy)
    return SharingRecord(policy=number, **{name: getattr(sharing, name) for name in _options(type(sharing))})


def read_sharing(record: SharingRecord) -> TimeSharing:
    """Return the policy that was written."""
    policy = codes()[record.policy]
    return policy(**{name: getattr(record, name) for name in _options(policy)})


def _options(policy: type[TimeSharing]) -> list[str]:
    return [attribute for attribute, _ in options_of(policy).values()]
