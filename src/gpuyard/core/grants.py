"""What somebody holds, as plain values: parts of GPUs and amounts beside them, on named nodes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from gpuyard.core.arguments import check_number
from gpuyard.core.cluster import RESOURCES
from gpuyard.core.errors import InputError, nearest

WHOLE = 1000
"""Thousandths in a GPU."""


class GrantState(IntEnum):
    """How far a grant is. In every state it is taken: nobody else can have it."""

    RESERVED = 0
    """Promised to somebody who has not started yet."""
    HELD = 1
    RELEASING = 2
    """Its holder is on the way out; what it holds will be free soon."""


@dataclass(frozen=True)
class Part:
    """What a grant takes of one node: a part of one GPU, amounts beside it, or both.

    `gpu` counts from 0 on each node; None takes amounts alone.
    """

    node: str
    gpu: int | None = None
    thousandths: int = WHOLE
    gpu_memory_gb: float = 0.0
    amounts: Mapping[str, float] = field(default_factory=dict)
    """By the names of RESOURCES; what is not named is 0."""

    def __post_init__(self) -> None:
        for name in self.amounts:
            if name not in RESOURCES:
                raise InputError("is not a resource of a node", value=name, hint=nearest(name, RESOURCES))
        for name, amount in [*self.amounts.items(), ("gpu_memory_gb", self.gpu_memory_gb)]:
            check_number(amount, name, least=0)
        if self.gpu is not None:
            check_number(self.gpu, "gpu", least=0, whole=True)
            check_number(self.thousandths, "thousandths", whole=True)
        if self.gpu is not None and not 0 <= self.thousandths <= WHOLE:
            raise InputError(f"must be from 0 to {WHOLE}", field="thousandths", value=self.thousandths)
        if self.gpu is None and self.gpu_memory_gb:
            raise InputError("is memory of a GPU, and no GPU is named", field="gpu_memory_gb", value=self.gpu_memory_gb)


@dataclass(frozen=True)
class Grant:
    """All that one holder has. A slice of a GPU may host several tasks: they are named here, and share what it has."""

    holder: Hashable
    parts: tuple[Part, ...]
    state: GrantState = GrantState.HELD
    tasks: tuple[str, ...] = ()

    @property
    def gpus(self) -> float:
        """How many GPUs it has, slices counted in parts."""
        return sum(part.thousandths for part in self.parts if part.gpu is not None) / WHOLE

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes it touches, in order of its parts."""
        return tuple(dict.fromkeys(part.node for part in self.parts))

    def total(self, resource: str) -> float:
        """How much of a resource it has on all nodes together."""
        return sum(part.amounts.get(resource, 0.0) for part in self.parts)
