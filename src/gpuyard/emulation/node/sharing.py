"""How processes share a GPU: the policy, its parameters, and the rates that follow from both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import inf
from typing import Protocol

from gpuyard.core.errors import InputError, nearest
from gpuyard.core.units import PLAIN, amount


class Policy(IntEnum):
    """Who of those with work queued runs, and how fast. The numbers stand in the segment."""

    TIME_SLICE = 0
    FIFO = 1
    PRIORITY = 2
    SPATIAL = 3
    PARTITION = 4
    EXCLUSIVE = 5

    def __str__(self) -> str:
        return self.name.lower().replace("_", "-")


SPANS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


@dataclass(frozen=True)
class Option:
    """A parameter of a policy as it is written on the command line."""

    attribute: str
    units: dict[str, float]
    least: float
    most: float
    rule: str


_SLICES = {
    "quantum": Option("quantum_s", SPANS, 1e-9, inf, "is not a positive time"),
    "switch": Option("switch_s", SPANS, 0.0, inf, "is not a time"),
}
OPTIONS: dict[Policy, dict[str, Option]] = {
    Policy.TIME_SLICE: _SLICES,
    Policy.FIFO: {},
    Policy.PRIORITY: _SLICES,
    Policy.SPATIAL: {
        "capacity": Option("capacity", PLAIN, 1e-9, inf, "is not a positive number"),
        "interference": Option("interference", PLAIN, 1e-9, 1.0, "is not a factor above 0 and at most 1"),
    },
    Policy.PARTITION: {},
    Policy.EXCLUSIVE: {},
}


@dataclass(frozen=True)
class Sharing:
    """A policy and its parameters."""

    policy: Policy = Policy.TIME_SLICE
    quantum_s: float = 0.002
    """A time slice. An assumption."""
    switch_s: float = 10e-6
    """Lost at each switch between processes, as registers and caches change hands. An assumption."""
    capacity: float = 1.0
    """Sum of demands that still runs at full speed."""
    interference: float = 0.95
    """What each other active process leaves of one's rate, as they share caches and bandwidth. An assumption."""

    @classmethod
    def parse(cls, text: str) -> Sharing:
        """Read `policy[:option=value,…]`, as in `time-slice:quantum=2ms,switch=10us` or `spatial:capacity=1.2`."""
        name, _, rest = text.strip().partition(":")
        policies = {str(policy): policy for policy in Policy}
        if name not in policies:
            raise InputError(
                "is not a sharing policy", field="sharing", value=name or text, hint=nearest(name, policies)
            )
        options = OPTIONS[policies[name]]
        values: dict[str, float] = {}
        for part in rest.split(",") if rest else []:
            key, equals, value = (piece.strip() for piece in part.partition("="))
            if key not in options:
                hint = nearest(key, options) if options else f"{name} has no options"
                raise InputError(f"is not an option of {name}", field="sharing", value=key or part, hint=hint)
            if options[key].attribute in values:
                raise InputError("is given twice", field="sharing", value=key)
            if not equals:
                raise InputError("lacks a value, as in quantum=2ms", field="sharing", value=part)
            values[options[key].attribute] = _read(key, value, options[key])
        return cls(policies[name], **values)

    def __str__(self) -> str:
        """Write it as `parse` reads it."""
        options = [f"{key}={_written(self, option)}" for key, option in OPTIONS[self.policy].items()]
        return ":".join([str(self.policy), *([",".join(options)] if options else [])])


def _written(sharing: Sharing, option: Option) -> str:
    unit = "ms" if option.units is SPANS else ""
    number = f"{getattr(sharing, option.attribute) / option.units[unit]:.9f}"
    return number.rstrip("0").rstrip(".") + unit


def _read(key: str, text: str, option: Option) -> float:
    value = amount(text, option.units, f"sharing, {key}")
    if not option.least <= value <= option.most:
        raise InputError(option.rule, field=f"sharing, {key}", value=text)
    return value


class Claim(Protocol):
    """What of a seat decides its rate."""

    @property
    def priority(self) -> int:
        """Higher runs first."""

    @property
    def share(self) -> float:
        """Its part of the GPU."""

    @property
    def demand(self) -> float:
        """The part of the GPU that it fills."""

    @property
    def ticket(self) -> int:
        """Its place in the line."""


def rates(active: Sequence[Claim], sharing: Sharing) -> list[float]:
    """Return how fast each seat with queued work runs, 1.0 being a GPU to itself."""
    return _RATES[sharing.policy](active, sharing) if active else []


def _time_slice(active: Sequence[Claim], sharing: Sharing) -> list[float]:
    """Split equally; every slice costs a switch as soon as there is somebody to switch to."""
    count = len(active)
    if count == 1:
        return [1.0]
    return [sharing.quantum_s / (sharing.quantum_s + sharing.switch_s) / count] * count


def _fifo(active: Sequence[Claim], sharing: Sharing) -> list[float]:  # noqa: ARG001
    first = min(claim.ticket for claim in active)
    return [1.0 if claim.ticket == first else 0.0 for claim in active]


def _priority(active: Sequence[Claim], sharing: Sharing) -> list[float]:
    """Let the highest level split the GPU as time slices do; everybody else waits."""
    highest = max(claim.priority for claim in active)
    each = _time_slice([claim for claim in active if claim.priority == highest], sharing)[0]
    return [each if claim.priority == highest else 0.0 for claim in active]


def _spatial(active: Sequence[Claim], sharing: Sharing) -> list[float]:
    """Run side by side: at full speed while the GPU is large enough, less what neighbours cost each other."""
    fits = min(1.0, sharing.capacity / sum(claim.demand for claim in active))
    return [fits * sharing.interference ** (len(active) - 1)] * len(active)


def _partition(active: Sequence[Claim], sharing: Sharing) -> list[float]:  # noqa: ARG001
    return [claim.share for claim in active]


_RATES: tuple[Callable[[Sequence[Claim], Sharing], list[float]], ...] = (
    _time_slice,
    _fifo,
    _priority,
    _spatial,
    _partition,
    _time_slice,  # exclusive: there is nobody else
)
"""By the number of the policy."""
