"""What runs together on a slice: rows of requests, and what goes into a model and comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuyard.serving.protocol.contract import Contract

GONE = -1
"""In place of the number of a slice that is no longer in the layout."""


@dataclass(slots=True, eq=False)
class Unit:
    """One row of a request: what takes one place in a batch."""

    ticket: Any
    """The request, as whoever asks knows it."""
    row: int
    arrived_s: float
    deadline_s: float = 0.0
    whole: Any = None
    """The request of an application that it is a part of, if any: when one part is dropped, so are the others."""


@dataclass(slots=True, eq=False)
class Batch:
    """Units that run together on a slice."""

    number: int
    gpu: int
    slice: int
    turn: int
    service: int
    units: list[Unit]
    begins_s: float | None
    """When the slice became free, if they already waited then; else whenever the slice hears of it."""
    decided_s: float
    ends_s: float
    """By the plan's figures."""


def contents_of(batch: Batch) -> list[bytes]:
    """The inputs of a batch, each with all its rows."""
    rows = [unit.ticket.inputs_of(unit.row) for unit in batch.units]
    return [b"".join(column) for column in zip(*rows, strict=True)]


def row_of(contract: Contract, contents: list[bytes], row: int) -> list[bytes]:
    """One row of each output."""
    return [
        content[row * spec.row_bytes : (row + 1) * spec.row_bytes]
        for spec, content in zip(contract.outputs, contents, strict=True)
    ]
