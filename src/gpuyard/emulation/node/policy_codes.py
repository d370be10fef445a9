"""The sharing policy of a node as numbers in its segment, where programs in C read it too."""

from __future__ import annotations

from gpuyard.emulation.node.layout import HEADER
from gpuyard.emulation.node.segment import Segment
from gpuyard.policies import timeshare
from gpuyard.policies.naming import options_of
from gpuyard.policies.timeshare import TimeSharing

CODES: dict[int, type[TimeSharing]] = {
    0: timeshare.TimeSlice,
    1: timeshare.FirstComeFirstServed,
    2: timeshare.Priority,
    3: timeshare.Spatial,
    4: timeshare.PromisedShares,
    5: timeshare.Exclusive,
}
"""A number, once given, keeps its meaning."""
OPTION_WORDS = {
    "quantum_s": HEADER.word("quantum"),
    "switch_s": HEADER.word("switch_cost"),
    "capacity": HEADER.word("capacity"),
    "interference": HEADER.word("interference"),
}


def write_sharing(segment: Segment, sharing: TimeSharing) -> None:
    """Store the policy and its options."""
    segment.words[HEADER.word("policy")] = next(code for code, policy in CODES.items() if type(sharing) is policy)
    for attribute in _options(type(sharing)):
        segment.reals[OPTION_WORDS[attribute]] = getattr(sharing, attribute)


def read_sharing(segment: Segment) -> TimeSharing:
    """Return how the node's GPUs are shared."""
    policy = CODES[segment.words[HEADER.word("policy")]]
    return policy(**{attribute: segment.reals[OPTION_WORDS[attribute]] for attribute in _options(policy)})


def _options(policy: type[TimeSharing]) -> list[str]:
    return [attribute for attribute, _ in options_of(policy).values()]
